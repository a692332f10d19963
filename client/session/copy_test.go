// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// A file that cannot be read is left out before the batch that it would spoil.
func TestWhyAPathCannotBeReadIsToldWithoutThePath(t *testing.T) {
	if got := reasonOf(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}); got != "it cannot be read: permission denied" {
		t.Error(got)
	}
}

// taking is a sandbox that takes all that is sent.
type taking struct{ devsync.Remote }

func (taking) Apply(_ context.Context, restart string, write func(*syncwire.Encoder) error) (*devsync.Applied, error) {
	return &devsync.Applied{}, write(syncwire.NewEncoder(io.Discard, nil, restart))
}

func TestACopyReportsWhatItLeavesOutAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o600), os.Symlink("../../elsewhere", out)); err != nil {
		t.Fatal(err)
	}
	var notes []Note
	err := upload(t.Context(), taking{}, dir, "in", func(n Note) { notes = append(notes, n) })
	var left *LeftOutError
	if !errors.As(err, &left) || left.Count != 1 {
		t.Errorf("it fails with %v", err)
	}
	if diff := cmp.Diff([]Note{LeftOut{Path: out, Reason: "the symlink leads out of the directory"}}, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if err := upload(t.Context(), taking{}, dir, "in", nil); !errors.As(err, &left) {
		t.Errorf("without a front end that wants notes: %v", err)
	}
}
