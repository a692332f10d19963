// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// watching is an engine that watches.
type watching struct {
	*world
	events chan devsync.Event
	engine *devsync.Engine
}

// watch begins to watch, and waits until both sides are alike for the first time.
func (w *world) watch(change func(*devsync.Options)) *watching {
	w.t.Helper()
	x := w.beginWatch(change)
	x.await(settled)
	return x
}

func settled(e devsync.Event) bool { return e.Type == devsync.EventSettled }

func (w *world) beginWatch(change func(*devsync.Options)) *watching {
	w.t.Helper()
	x := &watching{world: w, events: make(chan devsync.Event, 10_000)}
	opts := w.options()
	opts.OnEvent = func(e devsync.Event) { x.events <- e }
	if change != nil {
		change(&opts)
	}
	var err error
	if x.engine, err = devsync.Open(opts); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.engine.Watch(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the watch ended with %v", err)
		}
		x.engine.Close()
	})
	return x
}

// await waits for an event.
func (x *watching) await(is func(devsync.Event) bool) (before []devsync.Event) {
	x.t.Helper()
	for late := time.After(20 * time.Second); ; {
		select {
		case e := <-x.events:
			if is(e) {
				return before
			}
			before = append(before, e)
		case <-late:
			x.t.Fatalf("it did not happen; what happened: %+v", before)
		}
	}
}

func state(path string, state devsync.FileState) func(devsync.Event) bool {
	return func(e devsync.Event) bool { return e.Path == path && e.State == state }
}

// alike waits until the workspace is as the directory.
func (x *watching) alike(what string) {
	x.t.Helper()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		diff := cmp.Diff(read(x.t, x.dir), read(x.t, x.workspace))
		if diff == "" {
			return
		}
		if time.Now().After(late) {
			x.t.Fatalf("%s: (-here +there)\n%s", what, diff)
		}
	}
}

func TestWhatIsSavedArrives(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "d/e/f": "f", ".gitignore": "*.log\n"})
	x := w.watch(nil)
	x.alike("the beginning")
	write(t, w.dir, files{"a": "A", "x.log": "no"})
	var states []devsync.FileState
	for _, e := range x.await(state("a", devsync.FileApplied)) {
		if e.Path == "a" {
			states = append(states, e.State)
		}
	}
	if !slices.Equal(states, []devsync.FileState{devsync.Pending, devsync.Sending}) {
		t.Errorf("before it was applied the file was %v", states)
	}
	if read(t, w.workspace)["a"] != "A" || read(t, w.workspace)["x.log"] != "" {
		t.Errorf("the workspace has %v", read(t, w.workspace))
	}
	_ = os.Remove(filepath.Join(w.dir, "x.log"))
	// New directories in new directories, whose files are there before anybody watches them.
	write(t, w.dir, files{"n/n/n/1": "1", "n/n/2": "2", "n/3": "3"})
	x.alike("new directories")
	if err := os.Rename(filepath.Join(w.dir, "n"), filepath.Join(w.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.alike("a renamed directory")
	write(t, w.dir, files{"m/n/n/1": "one", "m/n/4": "4"})
	x.alike("an edit in a renamed directory")
	write(t, w.dir, files{"m/": "-", "d/": "-"})
	x.alike("removed directories")
	write(t, w.dir, files{"m/n/n/1": "again"})
	x.alike("a directory that is there again")
	write(t, w.dir, files{".gitignore": "*.tmp\n", "y.log": "now"})
	x.alike("another rule")
}

// A watch follows the directory, and the engine's table its name. Each row is one burst.
func TestEditsArriveAfterDirectoriesChangedTheirNames(t *testing.T) {
	rename := func(names ...string) func(*watching) {
		return func(x *watching) {
			for i := 0; i < len(names); i += 2 {
				if err := os.Rename(filepath.Join(x.dir, names[i]), filepath.Join(x.dir, names[i+1])); err != nil {
					x.t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		do    func(*watching)
		edits files
	}{
		"two are exchanged": {rename("a", "tmp", "b", "a", "tmp", "b"), files{"a/sub/f": "3", "b/sub/f": "4", "a/new/f": "5", "b/f": "6"}},
		"one is renamed and made again": {func(x *watching) {
			rename("a", "old")(x)
			write(x.t, x.dir, files{"a/sub/g": "new"})
		}, files{"old/sub/f": "3", "old/f": "4", "a/sub/g": "5", "a/sub/h": "6"}},
		"three change places":       {rename("a", "tmp", "b", "a", "c", "b", "tmp", "c"), files{"a/sub/f": "3", "b/sub/f": "4", "c/sub/f": "5"}},
		"one moves into another":    {rename("a", "b/in"), files{"b/in/sub/f": "3", "b/sub/f": "4"}},
		"one comes out of another":  {rename("a/sub", "out"), files{"out/f": "3", "a/f": "4"}},
		"one is renamed twice":      {rename("a", "x", "x", "y"), files{"y/sub/f": "3"}},
		"one is renamed and back":   {rename("a", "x", "x", "a"), files{"a/sub/f": "3"}},
		"a link's name is a tree's": {rename("a", "x", "l", "a"), files{"x/sub/f": "3", "b/sub/f": "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(t, w.dir, files{"a/sub/f": "1", "a/f": "1", "b/sub/f": "2", "b/f": "2", "c/sub/f": "3", "l": "-> b"})
			x := w.watch(nil)
			c.do(x)
			x.alike("after the names changed")
			for _, path := range paths(c.edits) {
				write(t, x.dir, files{path: c.edits[path]})
				x.alike("after an edit of " + path)
			}
		})
	}
}

// Nothing dies silently: a lost connection is told, edits meanwhile arrive when it is back.
func TestALostConnectionIsToldAndWhatWasSavedMeanwhileArrives(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	x := w.watch(nil)
	broken := func(*http.Request) fault { return fault{refuse: true} }
	w.fault.Store(&broken)
	write(t, w.dir, files{"a": "A"})
	x.await(func(e devsync.Event) bool { return e.Type == devsync.EventLost && e.Reason != "" && e.RetrySeconds > 0 })
	write(t, w.dir, files{"a": "AA", "b": "b"})
	x.await(state("b", devsync.Pending))
	w.fault.Store(nil)
	x.await(func(e devsync.Event) bool { return e.Type == devsync.EventResumed })
	x.alike("after the connection was lost")
	w.kill()
	write(t, w.dir, files{"c": "c"})
	x.await(func(e devsync.Event) bool { return e.Type == devsync.EventLost })
	w.start()
	x.alike("after the runner was killed")
}

// The sandbox tells by itself: nothing is asked for every few seconds, and a changed file takes
// no listing. One that is removed and written again, or changes while it is read, may take one: what was
// told of it is not true any more. So the files are replaced at once where listings are counted, and the
// counting begins when all that was told before has been heard.
func TestWhatTheSandboxMakesComesBack(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "d/b": "b"})
	listening := make(chan struct{}, 100)
	var listings atomic.Int64
	count := func(r *http.Request) fault {
		switch {
		case strings.HasSuffix(r.URL.Path, "/changes"):
			listening <- struct{}{}
		case strings.HasSuffix(r.URL.Path, "/files"):
			listings.Add(1)
		}
		return fault{}
	}
	w.fault.Store(&count)
	x := w.watch(func(o *devsync.Options) { o.TwoWay, o.PollInterval = true, time.Hour })
	<-listening
	w.save(files{"package-lock.json": "{}", "a": "formatted"})
	x.await(state("package-lock.json", devsync.FileReceived))
	x.alike("what the sandbox made")
	write(t, w.dir, files{"a": "edited"})
	x.alike("an edit of what came back")
	// What was told of "formatted" may come after "edited" was sent, and that takes a listing too: whether the
	// sandbox wrote it again cannot be known. What is told comes in order.
	w.save(files{"heard": "all before"})
	x.await(state("heard", devsync.FileReceived))
	before := listings.Load()
	for i := range 5 {
		w.save(files{"d/b": fmt.Sprint("formatted ", i)})
		x.await(state("d/b", devsync.FileReceived))
	}
	if n := listings.Load() - before; n > 0 {
		t.Errorf("five changed files took %d listings", n)
	}
	write(t, w.workspace, files{"new/dir/file": "1", "d/": "-", "link": "-> a"})
	x.alike("directories that come and go, and a symlink")
	w.kill()
	w.start()
	<-listening
	write(t, w.workspace, files{"a": "after a crash of the runner"})
	x.alike("a change after the runner was started anew")
}

// One way nobody listens, and yet an edit of a conflict looks at what the other side has now.
func TestAConflictThatTheSandboxGaveUpEndsWithTheNextEdit(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	x := w.watch(nil)
	write(t, w.workspace, files{"a": "there"})
	write(t, w.dir, files{"a": "here"})
	x.await(state("a", devsync.FileConflict))
	write(t, w.workspace, files{"a": "-"})
	write(t, w.dir, files{"a": "here again"})
	x.alike("after the sandbox's version was removed")
}

// deaf is a workspace that does not tell what changes in it.
type deaf struct{ devsync.Remote }

func (deaf) Changes(context.Context, []string, func(syncwire.Change)) error {
	return &devsync.RemoteError{Kind: devsync.Refused, Message: "too many directories"}
}

func TestASandboxThatCannotTellIsAskedAndThatIsSaid(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "b": "b"})
	x := w.watch(func(o *devsync.Options) {
		o.TwoWay, o.PollInterval, o.Remote = true, 10*time.Millisecond, deaf{o.Remote}
	})
	x.await(func(e devsync.Event) bool {
		return e.Type == devsync.EventNote && strings.Contains(e.Reason, "too many directories") && strings.Contains(e.Reason, "10ms")
	})
	write(t, w.workspace, files{"a": "there"})
	x.await(state("a", devsync.FileReceived))
}

// Both sides change, each its own files, while the connection breaks and the runner is killed;
// the session that watches brings them together.
func TestAWatchBringsBothSidesTogetherWhateverBreaks(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			p := &property{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 3))}
			write(t, p.dir, files{"here/a": "1", "there/a": "1"})
			x := p.watch(twoWay)
			for range 4 {
				p.fail()
				for range 10 {
					side := p.random.IntN(2)
					path := []string{"here/", "there/"}[side] + []string{"a", "b", "c/d", "c/e", "f"}[p.random.IntN(5)]
					content := "-"
					if p.counter++; p.random.IntN(4) > 0 {
						content = strconv.Itoa(p.counter)
					}
					write(t, p.roots()[side], files{path: content})
				}
				p.fault.Store(nil)
				p.kill() // it may live, or have been killed
				p.start()
				x.alike("after everything works again")
			}
		})
	}
}

func TestAWatchLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	e, err := devsync.Open(devsync.Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: unreachable{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Watch(ctx); err != nil {
		t.Error(err)
	}
	e.Close()
}

// unreachable fails as a remote without a network does.
type unreachable struct{ devsync.Remote }

func (unreachable) List(context.Context, []string, string) (*devsync.Listing, error) {
	return nil, &devsync.RemoteError{Kind: devsync.Unavailable, Message: "no network"}
}
