// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// attackTime bounds the race; it is enough for some ten thousand exchanges.
const attackTime = 3 * time.Second

// A directory and symlinks to a directory outside, to one inside and to the top are
// exchanged in an endless loop while files are synced into and deleted from that
// name. Whatever the sync sees, nothing may appear, change or vanish but in the
// directory.
func TestExchangingADirectoryForASymlinkLeadsNowhere(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	safe := tree{"victim": "safe", "sub/victim": "safe"}
	safe.make(t, outside)
	safe.make(t, filepath.Join(dir, "inside"))
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	for name, target := range map[string]string{"l1": outside, "l2": "inside", "l3": "/proc/self/root" + outside} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	w := open(t, dir, DefaultLimits())

	var race sync.WaitGroup
	stop := make(chan struct{})
	race.Go(func() {
		d, err := openTop(dir)
		if err != nil {
			t.Error(err)
			return
		}
		defer d.close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			other := fmt.Sprintf("l%d", i%3+1)
			// Twice, so that the directory is "a" half of the time.
			for range 2 {
				if err := unix.Renameat2(d.fd(), "a", d.fd(), other, unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("exchanging: %v", err)
					return
				}
			}
		}
	})

	var applied, refused int
	for end := time.Now().Add(attackTime); time.Now().Before(end); {
		for _, changes := range [][]change{
			{{path: "a/victim", content: "evil"}, {path: "a/sub/victim", content: "evil"}, {path: "a/new/file", content: "evil"}},
			{{path: "a/victim", delete: true}, {path: "a/sub", delete: true}},
		} {
			_, err := apply(w, changes)
			var refusal *Error
			switch {
			case err == nil:
				applied++
			case errors.As(err, &refusal) && (refusal.Code == CodeConflict || refusal.Code == CodePartiallyApplied):
				refused++
			default:
				t.Errorf("the error is %v", err)
			}
		}
	}
	close(stop)
	race.Wait()

	t.Logf("%d batches were applied, %d refused", applied, refused)
	if applied == 0 || refused == 0 {
		t.Errorf("%d applied and %d refused: the race did not take place", applied, refused)
	}
	for _, place := range []string{outside, filepath.Join(dir, "inside")} {
		if diff := cmp.Diff(safe, treeOf(t, place)); diff != "" {
			t.Errorf("%s changed (-want +got):\n%s", place, diff)
		}
	}
}
