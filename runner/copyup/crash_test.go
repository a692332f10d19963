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
	"sync/atomic"
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
	source, volume := quickFolders(t)
	crashImage.make(t, source)
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
		if _, killed := runChild(t, "/proc/self/exe", child{source, volume, step}, nil); !killed {
			t.Fatalf("step %d: the child was not killed", step)
		}
		if _, err := os.Lstat(filepath.Join(volume, workspace.TreeName)); !errors.Is(err, os.ErrNotExist) {
			if diff := cmp.Diff(want, copied(t, volume)); diff != "" {
				t.Fatalf("step %d: half a workspace (-image +copy):\n%s", step, diff)
			}
		}
		// The next one is killed too, while it removes what is left or copies again.
		if _, killed := runChild(t, "/proc/self/exe", child{source, volume, 1 + r.Int64N(steps.Load())}, nil); !killed {
			t.Logf("step %d: the second child came to its end", step)
		}
		if result := Run(t.Context(), Options{Source: source, Target: volume}); result.Reason.ExitCode() != 0 {
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
