// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

func TestProgressIsPrintedEachTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var lines strings.Builder
		counted := &tally{}
		done := make(chan struct{})
		go func() {
			counted.follow(ctx, &lines)
			close(done)
		}()
		time.Sleep(progressEvery + time.Millisecond)
		counted.totalFiles.Store(5000)
		counted.totalBytes.Store(40 << 20)
		counted.files.Store(1200)
		counted.bytes.Store(10 << 20)
		time.Sleep(2 * progressEvery)
		stop()
		<-done
		const want = "copy-up: counting the files\n" +
			"copy-up: 1200 of 5000 files, 10.0 MiB of 40.0 MiB\n" +
			"copy-up: 1200 of 5000 files, 10.0 MiB of 40.0 MiB\n"
		if lines.String() != want {
			t.Errorf("got %q", lines.String())
		}
	})
}

func TestAResultIsWrittenWhereKubernetesReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	want := copywire.Result{Reason: copywire.Copied, Message: "copied 1 files of /app (1 bytes)", Files: 1, Bytes: 1}
	must(t, Report(path, want)) // outside of a container
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
	must(t, os.WriteFile(path, []byte(strings.Repeat("of an earlier container", 100)), 0o600))
	must(t, Report(path, want))
	text, err := os.ReadFile(path)
	must(t, err)
	if got, err := copywire.Parse(text); err != nil || got.Message != want.Message || got.Files != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := Report(t.TempDir(), want); err == nil || !strings.Contains(err.Error(), "writing the termination message") {
		t.Errorf("got %v", err)
	}
}

func TestSizesAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1288490189: "1.2 GiB", 5 << 40: "5.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
