// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDirFor(t *testing.T) {
	root := t.TempDir()
	tests := map[string]struct {
		root, name string
		want       Dir
		refused    string
	}{
		"a name becomes a folder below the root":         {root, "dev", Dir(filepath.Join(root, "sandbar", "dev")), ""},
		"a name that climbs out is refused":              {root, "../x", "", "stack name"},
		"an empty name is refused":                       {root, "", "", "stack name"},
		"upper case is refused":                          {root, "Dev", "", "stack name"},
		"a name of 33 characters is refused":             {root, strings.Repeat("a", 33), "", "stack name"},
		"a name of 32 characters is accepted":            {root, strings.Repeat("a", 32), Dir(filepath.Join(root, "sandbar", strings.Repeat("a", 32))), ""},
		"a root that the node covers is refused":         {"/var/lib/x", "dev", "", "the node mounts its own /var/lib"},
		"a root beside what the node covers is accepted": {"/var/library", "dev", "/var/library/sandbar/dev", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DirFor(tt.root, tt.name)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("error %v, want one that says %q", err, tt.refused)
			}
		})
	}
}

func TestDirForReadsTheEnvironmentWhenThereIsNoRoot(t *testing.T) {
	root := t.TempDir()
	t.Setenv("SANDBAR_STATE", root)
	got, err := DirFor("", "dev")
	if want := Dir(filepath.Join(root, "sandbar", "dev")); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestSavedDecisionsAreLoadedAgain(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "stack"))
	if _, err := dir.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a stack that never was: %v, want fs.ErrNotExist", err)
	}
	saved := &Stack{Name: "dev", Runtime: RuntimeNode, Index: 3, KCPPort: 1, EtcdClientPort: 2, EtcdPeerPort: 4, Bin: "/b"}
	if err := dir.Save(saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := dir.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefusesWhatWouldBreakTheAddressPlan(t *testing.T) {
	tests := map[string]string{
		"an index beyond the plan": `{"index": 16}`,
		"an index below none":      `{"index": -2}`,
		"half a file":              `{"index": 1`,
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			dir := Dir(t.TempDir())
			if err := os.WriteFile(dir.File(), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := dir.Load(); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestSlicesOfDifferentStacksNeverOverlap(t *testing.T) {
	var all []netip.Prefix
	for i := range MaxStacks {
		n := NetworkAt(i)
		all = append(all, n.Host.Masked(), n.Pods, n.Services)
		for _, p := range []netip.Prefix{n.Pods, n.Services} {
			if p != p.Masked() {
				t.Errorf("stack %d: %s is no network", i, p)
			}
		}
		if !n.Services.Contains(n.DNS) || !n.Services.Contains(n.APIService) || !n.Host.Contains(n.Node.Addr()) {
			t.Errorf("stack %d: an address lies outside its network: %+v", i, n)
		}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Overlaps(b) {
				t.Errorf("%s and %s overlap", a, b)
			}
		}
	}
}

func TestFreePortsAreDifferent(t *testing.T) {
	ports, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Errorf("port %d was given twice", p)
		}
		seen[p] = true
	}
}

func TestWriteFileReplacesInOneStepAndLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "file")
	for _, content := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("folder has %v, %v, want the file only", entries, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}
