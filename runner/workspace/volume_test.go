// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func openVolume(t *testing.T, dir string) *Workspace {
	t.Helper()
	w, err := OpenVolume(dir, DefaultLimits())
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A watcher that prints what it sees would see what is written down of its output, and never come to rest.
func TestNothingThatTheRunnerWritesWakesAWatcherOfTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	w := openVolume(t, dir)
	inside := filepath.Join(dir, TreeName)
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(events)
	_, err = unix.InotifyAddWatch(events, inside, unix.IN_CREATE|unix.IN_MODIFY|unix.IN_MOVE|unix.IN_DELETE|unix.IN_ATTRIB|unix.IN_CLOSE_WRITE)
	must(t, err)

	log, err := w.OpenState("log-0")
	must(t, err)
	_, err = log.WriteString("what the app prints")
	must(t, errors.Join(err, log.Close(), w.SaveState("environment", []byte("x"))))
	_, err = apply(w, []change{{path: "file", content: "content"}})
	must(t, err)

	seen := map[string]bool{}
	buffer := make([]byte, 64<<10)
	for n, err := unix.Read(events, buffer); err == nil && n > 0; n, err = unix.Read(events, buffer) {
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			e := parseEvent(rest)
			seen[e.name], rest = true, rest[e.size:]
		}
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []string{"file"}) {
		t.Errorf("a watcher saw changes of %q, want those of the file alone", got)
	}
	if got := namesIn(t, inside); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the workspace has %q", got)
	}
	if got := namesIn(t, dir); !slices.Equal(got, []string{StagingName, TreeName}) {
		t.Errorf("the volume has %q", got)
	}
	if empty, err := w.Empty(); err != nil || empty {
		t.Errorf("the workspace is empty: %t, %v", empty, err)
	}
}

func TestTheWorkspaceOfAnEarlierRunnerMovesIntoItsVolume(t *testing.T) {
	dir := t.TempDir()
	crashBefore.make(t, dir)
	former := open(t, dir, DefaultLimits())
	_, err := apply(former, []change{{path: "synced", content: "by the former"}})
	must(t, err)
	must(t, former.SaveState("environment", []byte("kept")))
	former.Close()
	must(t, os.Mkdir(filepath.Join(dir, lostAndFound), 0o755))

	w := openVolume(t, dir)
	want := with(crashBefore, "synced", "by the former")
	if diff := cmp.Diff(want, treeOf(t, filepath.Join(dir, TreeName))); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	if kept, err := w.LoadState("environment", 100); err != nil || string(kept) != "kept" {
		t.Errorf("the state is %q, %v", kept, err)
	}
	if w.Revision() != 1 || w.Recovered().Moved == 0 {
		t.Errorf("revision %d, %+v", w.Revision(), w.Recovered())
	}
	if got := namesIn(t, dir); !slices.Equal(got, []string{StagingName, TreeName, lostAndFound}) {
		t.Errorf("the volume has %q", got)
	}
	w.Close()
	if again := openVolume(t, dir); again.Recovered().Moved != 0 {
		t.Errorf("a second start moved %d names", again.Recovered().Moved)
	}
}

// What the app puts beside the workspace must not replace what is in it.
func TestAMoveIntoTheVolumeReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	tree{TreeName + "/file": "the workspace's", "file": "beside it", "other": "moved"}.make(t, dir)
	openVolume(t, dir)
	if diff := cmp.Diff(tree{"file": "the workspace's", "other": "moved"}, treeOf(t, filepath.Join(dir, TreeName))); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(content) != "beside it" {
		t.Errorf("beside it lies %q, %v", content, err)
	}
}

// A runner dies within a batch, and the next one, which has a volume, dies while it moves the workspace or
// finishes the batch: the tree is as before the batch or as after it.
func TestACrashWhileTheWorkspaceMovesLosesNothing(t *testing.T) {
	for first := 1; ; first += 11 {
		probe := t.TempDir()
		crashBefore.make(t, probe)
		if _, died := crashAt(probe, first, applyCrashBatch(t)); !died {
			return
		}
		for second := 0; ; second += 1 + second/4 {
			dir := t.TempDir()
			crashBefore.make(t, dir)
			crashAt(dir, first, applyCrashBatch(t))
			died := crashOpeningVolume(dir, second)
			w, err := OpenVolume(dir, DefaultLimits())
			must(t, err)
			got, revision := treeOf(t, filepath.Join(dir, TreeName)), w.Revision()
			w.Close()
			before := cmp.Equal(got, crashBefore) && revision == 0
			if after := cmp.Equal(got, crashAfter) && revision == 1; !before && !after {
				t.Fatalf("steps %d and %d: revision %d, and the tree is neither (-before +got):\n%s\nnor (-after +got):\n%s",
					first, second, revision, cmp.Diff(crashBefore, got), cmp.Diff(crashAfter, got))
			}
			if !died {
				break
			}
		}
	}
}

// crashOpeningVolume dies before the step of opening a volume with the number, and reports whether there is one.
func crashOpeningVolume(dir string, step int) (died bool) {
	steps, dead := 0, false
	defer func() {
		if r := recover(); r != nil {
			if r != errCrash { //nolint:errorlint // the very value
				panic(r)
			}
			died = true
		}
	}()
	w, err := openVolumeWith(dir, DefaultLimits(), func(string) {
		if dead || steps == step {
			dead = true
			panic(errCrash)
		}
		steps++
	})
	if err != nil {
		panic(fmt.Sprint("opening the volume: ", err))
	}
	w.Close()
	return false
}

// A runner that is configured as before would show a volume's files one level too low, and a client would
// take all of them for deleted.
func TestAVolumeIsNotTakenForAWorkspace(t *testing.T) {
	dir := t.TempDir()
	openVolume(t, dir).Close()
	if w, err := Open(dir, DefaultLimits()); !errors.Is(err, ErrInVolume) {
		if err == nil {
			w.Close()
		}
		t.Errorf("got %v", err)
	}
}

func TestAWorkspaceKnowsItselfByAnotherPath(t *testing.T) {
	dir := t.TempDir()
	w := openVolume(t, dir)
	link := filepath.Join(t.TempDir(), "mount")
	must(t, os.Symlink(filepath.Join(dir, TreeName), link))
	for path, want := range map[string]bool{link: true, dir: false, t.TempDir(): false} {
		if is, err := w.IsTree(path); err != nil || is != want {
			t.Errorf("%s: %t, %v", path, is, err)
		}
	}
}
