// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// vim edits a file of the directory with the settings that it has without any of a person's. It gets keys as typed.
func (w *world) vim(name string) (keys func(string)) {
	w.t.Helper()
	program, err := exec.LookPath("vim")
	if err != nil {
		w.t.Skip("vim is not installed")
	}
	cmd := exec.CommandContext(w.t.Context(), program, "--not-a-term", "-N", "-u", "NONE", "-i", "NONE", "-T", "dumb", name)
	cmd.Dir = w.dir
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, if all went well
		_ = cmd.Wait()
	})
	return func(typed string) {
		w.t.Helper()
		if _, err := io.WriteString(in, typed); err != nil {
			w.t.Errorf("typing %q: %v", typed, err)
		}
	}
}

// until waits until a file is there, or is not.
func (w *world) until(name string, there bool) {
	w.t.Helper()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(filepath.Join(w.dir, name)); (err == nil) == there {
			return
		}
		if time.Now().After(late) {
			w.t.Fatalf("that %s is there: never %t", name, there)
		}
	}
}

// An app that is restarted for each change is not restarted because somebody opens a file in vim, or leaves it, and
// once when the file is written. Vim makes a swap file, one named 4913 to see what it may do, and a backup.
func TestOpeningAFileInVimRestartsNothing(t *testing.T) {
	w := newWorld(t, countFiles)
	write(t, w.dir, files{"main.js": "one\n"})
	var x *watching
	var keys func(string)
	printed := w.starts(
		func() { x = w.watch(func(o *devsync.Options) { o.Restart = "auto" }) },
		func() {
			keys = w.vim("main.js")
			w.until(".main.js.swp", true)
			write(t, w.dir, files{"opened": ""}) // what this restarts, opening did not
		},
		func() {
			keys("Aand two\x1b:write\r")
			x.await(state("main.js", devsync.FileApplied))
		},
		func() {
			keys(":quit\r")
			w.until(".main.js.swp", false)
			write(t, w.dir, files{"left": ""})
		},
	)
	if diff := cmp.Diff([]string{"0", "1", "2", "2", "3"}, printed); diff != "" {
		t.Errorf("the files at each start (-want +got):\n%s", diff)
	}
	x.await(settled)
	if diff := cmp.Diff(files{"main.js": "oneand two\n", "opened": "", "left": ""}, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	for len(x.events) > 0 {
		if e := <-x.events; e.Path != "" && !slices.Contains([]string{"main.js", "opened", "left"}, e.Path) {
			t.Errorf("there was an event of %s", e.Path)
		}
	}
}
