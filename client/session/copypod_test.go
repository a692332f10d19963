// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client"
)

// A second name is 512 bytes of an archive, and here a copy of all that has the first one.
func TestSecondNamesThatFillADiskAreLeftOut(t *testing.T) {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	write := func(h tar.Header, content string) {
		h.Mode = 0o644
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	write(tar.Header{Name: "./p/", Typeflag: tar.TypeDir}, "")
	write(tar.Header{Name: "./p/first", Typeflag: tar.TypeReg, Size: 400}, string(bytes.Repeat([]byte("x"), 400)))
	write(tar.Header{Name: "./p/small", Typeflag: tar.TypeReg, Size: 2}, "ab")
	for n := range 4 {
		write(tar.Header{Name: fmt.Sprintf("./p/%d", n), Typeflag: tar.TypeLink, Linkname: "./p/first"}, "")
	}
	write(tar.Header{Name: "./p/9", Typeflag: tar.TypeLink, Linkname: "./p/small"}, "")
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var left []string
	p := &podCopy{
		exec: func(_ context.Context, opts client.ExecOptions) (int, error) {
			_, err := opts.Stdout.Write(archive.Bytes())
			return 0, err
		},
		notes: func(n Note) {
			if l, ok := n.(LeftOut); ok {
				left = append(left, l.Path+": "+l.Reason)
			}
		},
		copies: 1000,
	}
	err := p.download(t.Context(), "p", dir+"/")
	var notWhole *LeftOutError
	if !errors.As(err, &notWhole) || notWhole.Count != 2 {
		t.Errorf("it ends with %v", err)
	}
	if diff := cmp.Diff([]string{"2: " + ReasonSecondName, "3: " + ReasonSecondName}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	var size int64
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && e == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if want := int64(402 + 1000 - 200 + 2); err != nil || size != want {
		t.Errorf("%d bytes are here, want %d; %v", size, want, err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "p", "9")); err != nil || string(content) != "ab" {
		t.Errorf("a small one behind them is %q, %v", content, err)
	}
}
