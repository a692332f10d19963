// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// noise returns reproducible bytes in which nothing repeats.
func noise(seed uint64, n int) string {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(p)
	return string(p)
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func isSync(r *http.Request) bool { return r.Method == http.MethodPost }

// A file that no request can carry is sent in parts, as large as the data plane takes them.
func TestAFileThatExceedsARequestTravelsInParts(t *testing.T) {
	w := newWorld(t)
	limited := func(*http.Request) fault { return fault{limit: 1 << 20} }
	w.fault.Store(&limited)
	large := noise(1, 5<<20)
	write(t, w.dir, files{"large": large + "*", "small": "small"})
	r := w.mustSync(nil)
	got := read(t, w.workspace)
	if len(r.Refused) > 0 || r.Sent != 2 || got["large"] != large+"*" || got["small"] != "small" {
		t.Errorf("sent %d, refused %v, the large file has %d bytes", r.Sent, r.Refused, len(got["large"]))
	}
}

// What arrived before the connection broke, or the program was interrupted, is not sent again; also
// not when the runner was killed meanwhile. Until then nothing of the file is seen.
func TestAnUploadGoesOnWhereItWasInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(w *world, stop context.CancelFunc){
		"the program is interrupted": func(*world, context.CancelFunc) {},
		"and the runner killed":      func(w *world, _ context.CancelFunc) { w.kill(); w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			const size = 60 << 20 // of which a request carries half
			large := noise(2, size)
			write(t, w.dir, files{"large": large})
			ctx, stop := context.WithCancel(t.Context())
			opts := w.options()
			opts.OnEvent = func(e devsync.Event) {
				if e.Type == devsync.EventProgress && e.Bytes > 0 {
					stop()
				}
			}
			e, err := devsync.Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Sync(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("the sync ended with %v", err)
			}
			e.Close()
			interrupt(w, stop)
			if got := read(t, w.workspace); len(got) > 0 {
				t.Error("half of the file is seen")
			}
			before, err := w.instance.Workspace().Staged(t.Context(), sumOf(large))
			if err != nil || before < 32<<20 || before >= size {
				t.Fatalf("%d bytes are staged, %v", before, err)
			}
			w.sent.Store(0)
			r := w.mustSync(nil)
			if got := read(t, w.workspace)["large"]; got != large {
				t.Fatalf("the file has %d bytes", len(got))
			}
			if left := size - before; r.Bytes != left || w.sent.Load() > left+left/100 {
				t.Errorf("%d bytes were sent, %d over the network; %d were missing", r.Bytes, w.sent.Load(), left)
			}
		})
	}
}

// Half a request counts as far as it came, and the same engine goes on.
func TestAConnectionThatBreaksInAPartLosesNothingThatArrived(t *testing.T) {
	w := newWorld(t)
	var requests atomic.Int32
	broken := func(r *http.Request) fault {
		if isSync(r) && requests.Add(1) == 2 {
			return fault{after: 10 << 20}
		}
		return fault{}
	}
	w.fault.Store(&broken)
	large := noise(3, 60<<20)
	write(t, w.dir, files{"large": large})
	r := w.mustSync(nil)
	if got := read(t, w.workspace)["large"]; got != large {
		t.Fatalf("the file has %d bytes", len(got))
	}
	if r.Sent != 1 || w.sent.Load() > int64(len(large))+5<<20 {
		t.Errorf("%d bytes were sent of %d", w.sent.Load(), len(large))
	}
}

// Of a large file that changed in more than one request carries, what did not change stays there.
func TestAChangedLargeFileSendsWhatIsNewInParts(t *testing.T) {
	w := newWorld(t)
	old := noise(4, 64<<20)
	write(t, w.dir, files{"large": old})
	w.mustSync(nil)
	const fresh = 50 << 20
	changed := noise(5, fresh) + old[fresh:]
	write(t, w.dir, files{"large": changed})
	w.sent.Store(0)
	r := w.mustSync(nil)
	if got := read(t, w.workspace)["large"]; got != changed {
		t.Fatalf("the file has %d bytes", len(got))
	}
	if r.Bytes < fresh || r.Bytes > fresh+1<<20 || w.sent.Load() > fresh+2<<20 {
		t.Errorf("%d bytes were sent, %d over the network; %d are new", r.Bytes, w.sent.Load(), fresh)
	}
}

// A file of the sandbox comes in as many requests as it takes, and a program that is interrupted
// goes on with what it has.
func TestADownloadGoesOnWhereItWasInterrupted(t *testing.T) {
	w := newWorld(t)
	large := noise(6, 12<<20)
	write(t, w.workspace, files{"sub/large": large})
	var reads atomic.Int32
	broken := func(r *http.Request) fault {
		if !strings.HasSuffix(r.URL.Path, "/files/sub/large") {
			return fault{}
		}
		if reads.Add(1) <= 2 { // by the second break the program is interrupted, and tries no more
			return fault{half: 5 << 20}
		}
		return fault{}
	}
	w.fault.Store(&broken)
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	first := devsync.Download{Remote: w.instance.Workspace(), Path: "sub/large", Size: int64(len(large)), Digest: sumOf(large)}
	ctx, stop := context.WithCancel(t.Context())
	first.OnProgress = func(done int64) {
		if done > 8<<20 { // behind the break
			stop()
		}
	}
	if name, err := first.Into(ctx, root, ".", 0o644); err == nil {
		t.Fatalf("an interrupted download made %s", name)
	}
	if reads.Load() != 2 {
		t.Errorf("the broken connection was made again %d times", reads.Load()-1)
	}
	second := devsync.Download{Remote: w.instance.Workspace(), Path: "sub/large", Size: int64(len(large)), Digest: sumOf(large)}
	name, err := second.Into(t.Context(), root, ".", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != large {
		t.Errorf("the file has %d bytes", len(got))
	}
	if second.Resumed <= 8<<20 {
		t.Errorf("it began again at %d", second.Resumed)
	}
}

// A beginning that is not the file's is dropped and not completed for ever.
func TestADownloadNeverEndsWithAnotherFilesBeginning(t *testing.T) {
	w := newWorld(t)
	large := noise(7, 9<<20)
	write(t, w.workspace, files{"large": large})
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	kept := filepath.Join(dir, ".sandbar-incoming-"+sumOf(large)[:32]+".part")
	write(t, filepath.Dir(victim), files{"victim": "mine"})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	download := func() (string, error) {
		d := devsync.Download{Remote: w.instance.Workspace(), Path: "large", Size: int64(len(large)), Digest: sumOf(large)}
		name, err := d.Into(t.Context(), root, ".", 0o600)
		return filepath.Join(dir, name), err
	}
	if err := os.WriteFile(kept, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := download(); !errors.Is(err, devsync.ErrChanged) {
		t.Errorf("another file's beginning: %v", err)
	}
	if name, err := download(); err != nil || !isContent(t, name, large) {
		t.Errorf("the next time: %v", err)
	}
	_ = os.Remove(kept)
	if err := os.Symlink(victim, kept); err != nil {
		t.Fatal(err)
	}
	if name, err := download(); err != nil || !isContent(t, name, large) || !isContent(t, victim, "mine") {
		t.Errorf("beside a symlink: %v", err)
	}
}

func isContent(t *testing.T, name, want string) bool {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(got) == want
}

// Each file of a batch is cut up on its own: two that are sent in pieces are both there after one sync.
func TestTwoLargeFilesTravelInOneBatch(t *testing.T) {
	w := newWorld(t)
	tree := files{"a": noise(1, 2<<20), "b": noise(2, 3<<20), "c": noise(3, 2<<20)}
	write(t, w.dir, tree)
	if r := w.mustSync(nil); r.Sent != len(tree) {
		t.Errorf("%d files were sent, want %d", r.Sent, len(tree))
	}
	if diff := cmp.Diff(tree, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace has (-want +got):\n%.500s", diff)
	}
}
