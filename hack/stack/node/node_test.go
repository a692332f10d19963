// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

func testNode(t *testing.T, index int) Node {
	t.Helper()
	return Node{
		Name: "test", Dir: state.Dir(t.TempDir()), Net: state.NetworkAt(index),
		Bin: func(part, name string) string { return "/cache/" + part + "/" + name },
	}
}

func TestEveryConfigurationFileIsWellFormed(t *testing.T) {
	n := testNode(t, 0)
	n.ForTests = true
	for name, content := range n.filesFor(16) {
		var err error
		switch filepath.Ext(name) {
		case ".yaml":
			var into map[string]any
			err = yaml.UnmarshalStrict([]byte(content), &into)
		case ".conflist":
			var into map[string]any
			err = json.Unmarshal([]byte(content), &into)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(content, "<no value>") {
			t.Errorf("%s has a hole:\n%s", name, content)
		}
	}
}

// What two stacks would fight over must differ between them.
func TestANodeForTestsOffersTheSameOnEveryMachine(t *testing.T) {
	n := testNode(t, 0)
	for has, want := range map[int]int{1: 0, 2: 0, 16: 14} {
		if n.ForTests = true; n.reservedCPUs(has) != want {
			t.Errorf("of %d CPUs a node for tests reserves %d, want %d", has, n.reservedCPUs(has), want)
		}
		if n.ForTests = false; n.reservedCPUs(has) != 0 {
			t.Errorf("of %d CPUs a person's node reserves %d", has, n.reservedCPUs(has))
		}
	}
}

func TestStacksShareNothingOnTheMachine(t *testing.T) {
	a, b := testNode(t, 0), testNode(t, 1)
	if a.Net.Cgroup() == b.Net.Cgroup() || a.Server() == b.Server() || a.innerLink() == b.innerLink() {
		t.Errorf("cgroups %s, %s; servers %s, %s", a.Net.Cgroup(), b.Net.Cgroup(), a.Server(), b.Server())
	}
	for _, name := range []string{"cni/10-ptp.conflist", "kubelet.yaml", "proxy.yaml"} {
		if a.files()[name] == b.files()[name] {
			t.Errorf("%s is the same for both", name)
		}
	}
}

func TestAChangedConfigurationMakesAnotherUnit(t *testing.T) {
	n := testNode(t, 0)
	files := n.files()
	before := hashOf(files)
	files["kubelet.yaml"] += "\n"
	if hashOf(files) == before {
		t.Error("the change does not show")
	}
	if n.Unit().Config != before {
		t.Error("the unit does not carry the hash of its files")
	}
}

func TestPrepareIsIdempotentAndKeepsIdentities(t *testing.T) {
	n := testNode(t, 0)
	read := func() map[string]string {
		if err := n.Prepare(); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		err := filepath.WalkDir(string(n.Dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[path] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := read()
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Error(diff)
	}
	if _, ok := first[n.Dir.Kubeconfig("runtime-admin")]; !ok {
		t.Error("there is no kubeconfig for the administrator")
	}
}

func TestPrepareForgetsTheNetworksOfContainersThatAreGone(t *testing.T) {
	n := testNode(t, 0)
	stale := filepath.Join(n.Dir.Node(), "var-lib", "cni", "results", "x")
	if err := state.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Prepare(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("it is still there")
	}
}

func TestEveryProcessNamesItsProgramAbsolutely(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range testNode(t, 0).processes() {
		if !filepath.IsAbs(p.Args[0]) {
			t.Errorf("%s runs %s", p.Name, p.Args[0])
		}
		if seen[p.Name] {
			t.Errorf("two processes are called %s", p.Name)
		}
		seen[p.Name] = true
	}
}

func TestRemoveTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "sandbar0")
	if err := os.MkdirAll(filepath.Join(root, "kubepods", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("it is still there")
	}
	if err := removeTree(root); err != nil {
		t.Errorf("what is gone already: %v", err)
	}
}

func TestManifestFillsInTheAddressOfDNS(t *testing.T) {
	if !strings.Contains(clusterManifest, "$(DNS)") {
		t.Error("the manifest names no place for the address")
	}
	for i, document := range strings.Split(clusterManifest, "\n---\n") {
		var object struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Kind == "" || object.APIVersion == "" {
			t.Errorf("document %d: %+v, %v", i, object, err)
		}
	}
}
