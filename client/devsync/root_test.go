// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// replace makes another directory with files take the place of the directory, which is kept beside it.
func (w *world) replace(tree files) (old string) {
	w.t.Helper()
	old = w.dir + ".old"
	if err := errors.Join(os.Rename(w.dir, old), os.Mkdir(w.dir, 0o755)); err != nil {
		w.t.Fatal(err)
	}
	write(w.t, w.dir, tree)
	return old
}

func tells(eventType devsync.EventType, words string) func(devsync.Event) bool {
	return func(e devsync.Event) bool { return e.Type == eventType && strings.Contains(e.Reason, words) }
}

// mv proj proj.old && cp -a proj.old proj: the handle of the directory leads to proj.old from then on.
func TestWhatTheSandboxMakesGoesToTheDirectoryThatTookThePlace(t *testing.T) {
	w := newWorld(t)
	tree := files{"a": "a", "d/b": "b"}
	write(t, w.dir, tree)
	x := w.watch(twoWay)
	old := w.replace(tree)
	x.await(tells(devsync.EventNote, "took the place"))
	// Told once more as in sync, if only with a change: so a change of the directory comes first.
	write(t, w.dir, files{"here": "here"})
	x.await(state("here", devsync.FileApplied))
	write(t, w.workspace, files{"a": "formatted", "new": "made there"})
	x.await(state("new", devsync.FileReceived))
	x.alike("after the directory was replaced")
	if diff := cmp.Diff(files{"a": "formatted", "d/b": "b", "here": "here", "new": "made there"}, read(t, w.dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tree, read(t, old)); diff != "" {
		t.Errorf("the old directory (-want +got):\n%s", diff)
	}
}

// rm -rf proj && git clone … proj: of what both have, one way sends what the sandbox has left as it was sent; two ways
// leave a person to choose.
func TestNothingIsDeletedForADirectoryThatTookThePlaceAndLaterEditsArrive(t *testing.T) {
	for _, way := range []struct {
		name   string
		change func(*devsync.Options)
		c      string // what the sandbox has then, which has not changed it
	}{{"one way", func(*devsync.Options) {}, "cloned"}, {"two ways", twoWay, "c"}} {
		t.Run(way.name, func(t *testing.T) {
			w := newWorld(t)
			write(t, w.dir, files{"a": "a", "only/there": "o", "c": "c", "both": "b"})
			x := w.watch(way.change)
			write(t, w.workspace, files{"both": "formatted"})
			w.replace(files{"a": "a", "c": "cloned", "both": "cloned", "n": "n"})
			x.await(state("n", devsync.FileApplied))
			write(t, w.dir, files{"a": "edited", "n": "edited"})
			x.await(state("a", devsync.FileApplied))
			x.await(settled)
			want := files{"a": "edited", "only/there": "o", "c": way.c, "both": "formatted", "n": "edited"}
			if diff := cmp.Diff(want, read(t, w.workspace)); diff != "" {
				t.Errorf("the sandbox (-want +got):\n%s", diff)
			}
			for _, path := range []string{"c", "both"} {
				if got := read(t, w.dir)[path]; got != "cloned" {
					t.Errorf("the directory has %q in %s", got, path)
				}
			}
		})
	}
}

// What one way has sent again is edited and deleted as ever.
func TestAFileOfADirectoryThatTookThePlaceIsFollowed(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "c": "c"})
	x := w.watch(func(*devsync.Options) {})
	w.replace(files{"a": "a", "c": "cloned"})
	x.await(state("c", devsync.FileApplied))
	write(t, w.dir, files{"c": "edited"})
	x.await(state("c", devsync.FileApplied))
	if err := os.Remove(filepath.Join(w.dir, "c")); err != nil {
		t.Fatal(err)
	}
	x.await(settled)
	x.await(func(devsync.Event) bool { return read(t, w.workspace)["c"] == "" })
	if diff := cmp.Diff(files{"a": "a"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
}

func TestADirectoryThatIsGoneIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	x := w.watch(twoWay)
	if err := os.Rename(w.dir, w.dir+".away"); err != nil {
		t.Fatal(err)
	}
	x.await(tells(devsync.EventUnsettled, "is gone"))
	write(t, w.workspace, files{"b": "b"})
	write(t, w.dir+".away", files{"c": "c"}) // nobody watches it now
	if err := os.Rename(w.dir+".away", w.dir); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, files{"a": "A"})
	x.await(state("a", devsync.FileApplied))
	x.alike("after the directory was there again")
}

// A clone begins with an empty directory: files of the sandbox in it would be in its way.
func TestAnEmptyDirectoryThatTookThePlaceGetsNothingBeforeItHasFiles(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "b": "b"})
	x := w.watch(twoWay)
	w.replace(nil)
	x.await(tells(devsync.EventUnsettled, "is empty and had files (2)"))
	if got := read(t, w.dir); len(got) > 0 {
		t.Errorf("the directory has %v", got)
	}
	write(t, w.dir, files{"a": "a", "c": "c"})
	x.await(state("c", devsync.FileApplied))
	x.alike("after the directory had files")
	if diff := cmp.Diff(files{"a": "a", "b": "b", "c": "c"}, read(t, w.dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// onceListed calls something when the workspace has been listed: after the directory was read, and before
// anything is sent.
type onceListed struct {
	devsync.Remote
	then func()
}

func (l onceListed) List(ctx context.Context, exclude []string, known string) (*devsync.Listing, error) {
	defer l.then()
	return l.Remote.List(ctx, exclude, known)
}

func TestADirectoryThatIsReplacedWhileItIsComparedIsReadAgain(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "b": "b", "gone": "x"})
	w.mustSync(nil)
	write(t, w.dir, files{"gone": "-", "b": "edited"})
	r := w.mustSync(func(o *devsync.Options) {
		o.Remote = onceListed{o.Remote, sync.OnceFunc(func() { w.replace(files{"b": "b", "n": "n"}) })}
	})
	if diff := cmp.Diff(files{"a": "a", "b": "b", "gone": "x", "n": "n"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
	if len(r.Conflicts) > 0 || r.Sent != 1 {
		t.Errorf("the report is %+v", r)
	}
}

func TestASyncOfADirectoryThatIsGoneFails(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	w.mustSync(nil)
	write(t, w.dir, files{"a": "edited"})
	_, err := w.sync(func(o *devsync.Options) {
		o.Remote = onceListed{o.Remote, sync.OnceFunc(func() { write(t, w.dir, files{"a": "-"}); _ = os.Remove(w.dir) })}
	})
	var gone *devsync.GoneError
	if !errors.As(err, &gone) {
		t.Errorf("it fails with %v", err)
	}
	if diff := cmp.Diff(files{"a": "a"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
}

// current -> releases/5, and after the next release current -> releases/6.
func TestASymlinkThatLeadsElsewhereIsTold(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	other, link := t.TempDir(), filepath.Join(t.TempDir(), "current")
	write(t, other, files{"b": "b"})
	if err := os.Symlink(w.dir, link); err != nil {
		t.Fatal(err)
	}
	var notes []string
	o := w.options()
	o.Dir = link
	o.OnEvent = func(e devsync.Event) {
		if e.Type == devsync.EventNote {
			notes = append(notes, e.Reason)
		}
	}
	e, err := devsync.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	sync := func() {
		t.Helper()
		if _, err := e.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if err := errors.Join(os.Remove(link), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	sync()
	sync()
	if len(notes) != 1 || !strings.Contains(notes[0], link+" leads to "+other+" now, and "+w.dir+" is still what is synced") {
		t.Errorf("the notes are %q", notes)
	}
	if diff := cmp.Diff(files{"a": "a"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}
