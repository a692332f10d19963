// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package client

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// The digests of the golden files: of "hello", "x\n" and "foo".
const (
	digestHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	digestOld   = "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
	digestFoo   = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
)

// syncRunner answers each call with a golden file, and keeps the body of the last one.
func syncRunner(t *testing.T, file string, status int) (devsync.Remote, *string) {
	t.Helper()
	var body string
	i := runnerOf(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(text)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(append(goldenOf(t, "sync", file), '\n'))
	})
	return i.Workspace(), &body
}

// conflicting writes the batch of batch-conflict.golden.
func conflicting(e *syncwire.Encoder) error {
	_ = e.Entry(syncwire.Frame{
		Op: syncwire.OpFile, Path: "a.ts", Size: 2, Digest: digestOld, Expect: &syncwire.Entry{Type: syncwire.File, Digest: digestOld},
	})
	_ = e.Data([]byte("x\n"))
	return e.End()
}

func TestTheClientSendsABatchAndReadsTheReplyOfTheGoldenFiles(t *testing.T) {
	for file, want := range map[string]devsync.Applied{
		"reply.json":                {Revision: 1},
		"reply-reload.json":         {Revision: 3, Restarted: true},
		"reply-restart-failed.json": {Revision: 3, RestartError: "no such file"},
	} {
		remote, body := syncRunner(t, file, http.StatusOK)
		got, err := remote.Apply(t.Context(), syncwire.RestartNever, conflicting)
		if diff := cmp.Diff(&want, got); err != nil || diff != "" {
			t.Errorf("%s, %v (-want +got):\n%s", file, err, diff)
		}
		if diff := cmp.Diff(string(goldenOf(t, "sync", "batch-conflict.golden"))+"\n", *body); diff != "" {
			t.Errorf("the batch (-golden +got):\n%s", diff)
		}
	}
}

func TestTheClientReadsTheConflictsOfTheGoldenFile(t *testing.T) {
	remote, _ := syncRunner(t, "error-conflict.json", http.StatusConflict)
	_, err := remote.Apply(t.Context(), syncwire.RestartNever, conflicting)
	var refused *devsync.RemoteError
	if !errors.As(err, &refused) || refused.Kind != devsync.Stale || len(refused.Conflicts) != 1 {
		t.Fatalf("the error is %#v", err)
	}
	if c := refused.Conflicts[0]; c.Path != "a.ts" || c.Expected.Digest != digestOld || c.Actual.Digest != digestHello || c.Wanted.Size != 2 {
		t.Errorf("the conflict is %+v", c)
	}
}

func TestTheClientStagesAsTheGoldenFilesDo(t *testing.T) {
	remote, body := syncRunner(t, "reply-staged.json", http.StatusOK)
	offset, err := remote.Stage(t.Context(), func(e *syncwire.Encoder) error {
		_ = e.Entry(syncwire.Frame{Op: syncwire.OpStage, Digest: digestFoo, Size: 3, Length: 2})
		_ = e.Data([]byte("fo"))
		return e.End()
	})
	if diff := cmp.Diff(string(goldenOf(t, "sync", "batch-stage.golden"))+"\n", *body); err != nil || offset != 2 || diff != "" {
		t.Errorf("%d, %v (-golden +got):\n%s", offset, err, diff)
	}
	remote, _ = syncRunner(t, "staged.json", http.StatusOK)
	if offset, err := remote.Staged(t.Context(), digestFoo); offset != 2 || err != nil {
		t.Errorf("%d, %v", offset, err)
	}
}

func TestTheClientReadsWhatTheGoldenFilesList(t *testing.T) {
	remote, _ := syncRunner(t, "listing.ndjson", http.StatusOK)
	listing, err := remote.List(t.Context(), nil, "")
	if err != nil || len(listing.Entries) != 3 || listing.Entries[0].Digest != digestHello || !listing.Entries[0].Executable || listing.Entries[2].Target != "a.ts" {
		t.Errorf("the listing is %+v, %v", listing, err)
	}
	remote, _ = syncRunner(t, "chunks.json", http.StatusOK)
	chunks, err := remote.Chunks(t.Context(), "b.ts")
	if err != nil || chunks.Size != 7 || len(chunks.Chunks) != 1 || chunks.Chunks[0].Length != 7 {
		t.Errorf("the chunks are %+v, %v", chunks, err)
	}
	remote, _ = syncRunner(t, "changes.ndjson", http.StatusOK)
	var got []string
	err = remote.Changes(t.Context(), nil, func(c syncwire.Change) {
		line := c.Resync
		if c.Entry != nil {
			line = string(c.Type) + " " + c.Path
		}
		got = append(got, line)
	})
	if diff := cmp.Diff([]string{"", "file b.ts", "none old.ts", "too many changes at once"}, got); diff != "" || err == nil {
		t.Errorf("changes, %v (-want +got):\n%s", err, diff)
	}
}
