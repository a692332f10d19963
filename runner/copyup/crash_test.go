// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// crashImage has every kind of entry, and directories that nobody may write to.
var crashImage = image{
	"a/run": {content: "#!", mode: 0o755}, "a/large": {content: strings.Repeat("x", 300<<10)}, "a/link": {symlink: "run"},
	"shut": {dir: true, mode: 0o555}, "shut/deep": {dir: true, mode: 0o500}, "shut/deep/file": {content: "y", mode: 0o400},
	"name": {content: "z"}, "b/second": {same: "name"}, "b/third": {same: "name"}, "empty": {dir: true}, "holes": {content: "e", holes: 1 << 20},
}

// A copy is killed ahead of each of its steps once, and at random ones until it was killed fifty times. Until the copy is in
// its place the volume has no workspace, never half of one; and the next copy gives the same as one that nothing happened to.
func TestACopyThatIsKilledBeginsAgain(t *testing.T) {
	program, user := podUser(t)
	source, volume := quickFolders(t)
	crashImage.make(t, source)
	give(t, filepath.Dir(source), user)
	want := describe(t, source)
	var steps atomic.Int64
	run(t, Options{Source: source, Target: volume, before: func(string) { steps.Add(1) }}, copywire.Copied)
	if steps.Load() < 45 {
		t.Fatalf("the copy has %d steps: the tree is too simple", steps.Load())
	}
	r := rand.New(rand.NewPCG(1, 2))
	for kills := range int64(50) {
		step := kills + 1
		if step > steps.Load() || kills >= 45 {
			step = 1 + r.Int64N(steps.Load())
		}
		_, volume := quickFolders(t)
		give(t, filepath.Dir(volume), user)
		if _, killed := runChild(t, program, child{source, volume, step}, user); !killed {
			t.Fatalf("step %d: the child was not killed", step)
		}
		if _, err := os.Lstat(filepath.Join(volume, workspace.TreeName)); !errors.Is(err, os.ErrNotExist) {
			if diff := cmp.Diff(want, copied(t, volume)); diff != "" {
				t.Fatalf("step %d: half a workspace (-image +copy):\n%s", step, diff)
			}
		}
		// The next one is killed too, while it removes what is left or copies again.
		if _, killed := runChild(t, program, child{source, volume, 1 + r.Int64N(steps.Load())}, user); !killed {
			t.Logf("step %d: the second child came to its end", step)
		}
		if result, _ := runChild(t, program, child{Source: source, Target: volume}, user); result.Reason.ExitCode() != 0 || result.Unreadable > 0 {
			t.Fatalf("step %d: the next copy ended with %+v", step, result)
		}
		if diff := cmp.Diff(want, copied(t, volume)); diff != "" {
			t.Fatalf("step %d: -image +copy:\n%s", step, diff)
		}
		if names := namesIn(t, filepath.Join(volume, workspace.StagingName)); len(names) != 1 {
			t.Fatalf("step %d: %q are left", step, names)
		}
	}
}

// give makes a tree a user's.
func give(t *testing.T, dir string, user *syscall.Credential) {
	t.Helper()
	if user == nil {
		return
	}
	for path := range describe(t, dir) {
		must(t, os.Lchown(filepath.Join(dir, path), int(user.Uid), int(user.Gid)))
	}
}

// A marker that was on disk before the files, or before the directory that has them, would after a loss of power stand for
// files that are empty.
func TestTheMarkerIsWrittenWhenTheFilesAreOnDisk(t *testing.T) {
	source, volume := folders(t)
	image{"file": {content: "x"}}.make(t, source)
	var steps []string
	var mu sync.Mutex
	run(t, Options{Source: source, Target: volume, before: func(step string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step)
	}}, copywire.Copied)
	want := []string{
		"unlink", "mkdir", // .sandbar/copy-up
		"create", "write", "chmod", "touch", // the file
		"touch", "chmod", // the workspace
		"sync all",
		"mkdir", "unlink", "create", "write", "sync file", "rename", "sync", "sync", "sync", // the marker, and the directories that lead to it
		"rename", "sync", "sync", // the workspace's place
	}
	if diff := cmp.Diff(want, steps[1:]); diff != "" { // behind the mkdir of .sandbar
		t.Errorf("-want +got:\n%s", diff)
	}
}
