// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandbar-dev/sandbar"

// What the Kubernetes API types bring with them. Every client of Kubernetes has these already.
var apimachinery = []string{
	"github.com/fxamacker/cbor/v2",
	"github.com/go-logr/logr",
	"github.com/json-iterator/go",
	"github.com/modern-go/concurrent",
	"github.com/modern-go/reflect2",
	"github.com/x448/float16",
	"go.yaml.in/yaml/v2",
	"golang.org/x/net",
	"golang.org/x/text",
	"gopkg.in/inf.v0",
	"k8s.io/api",
	"k8s.io/apimachinery",
	"k8s.io/klog/v2",
	"k8s.io/kube-openapi",
	"k8s.io/utils",
	"sigs.k8s.io/json",
	"sigs.k8s.io/randfill",
	"sigs.k8s.io/structured-merge-diff/v6",
}

// What client-go brings in addition: reading a kubeconfig, TLS, streams.
var clientGo = []string{
	"github.com/davecgh/go-spew",
	"github.com/gorilla/websocket",
	"github.com/moby/spdystream",
	"github.com/munnerz/goautoneg",
	"github.com/spf13/pflag",
	"golang.org/x/oauth2",
	"golang.org/x/sys",
	"golang.org/x/term",
	"golang.org/x/time",
	"k8s.io/client-go",
	"k8s.io/streaming",
	"sigs.k8s.io/yaml",
}

// These trees are linked into programs that other people write, and the runner into every sandbox.
// A program that uses one inherits all modules of its list, so a new line needs a reason. kro, kcp's
// server, controller-runtime and the provider are what the lists keep out.
var trees = []struct {
	path     string
	packages []string // of this repository, outside of the tree
	modules  []string // of others
}{
	{path: "apis", modules: apimachinery},
	// The runner links it: the standard library alone.
	{path: "apis/wire"},
	{
		path: "client",
		packages: []string{
			"apis/v1alpha1",
			// The formats that clients and the runner share.
			"apis/wire/exec",
			"apis/wire/log",
			"apis/wire/sync",
			// Sync applies the same ignore rules as the runner.
			"pkg/gitignore",
			"pkg/pause",
			// What errors of client/session quote of a sandbox goes to a terminal.
			"pkg/termsafe",
			// WebSocket of exec and of port-forward.
			"pkg/wsconn",
		},
		modules: slices.Concat(apimachinery, clientGo, []string{
			// Notices that a file of the developer was edited.
			"github.com/fsnotify/fsnotify",
			// client-go's watch that resumes by itself comes with client-go's caches, which compare objects.
			"github.com/pmezard/go-difflib",
		}),
	},
	{
		path: "runner",
		packages: []string{
			"apis/wire/copy",
			"apis/wire/exec",
			"apis/wire/log",
			"apis/wire/sync",
			// The data plane and the runner prove to each other that they hold the control token.
			"pkg/controlproof",
			"pkg/gitignore",
			"pkg/wsconn",
		},
		modules: []string{
			// WebSocket of exec, with x/net for its SOCKS proxies.
			"github.com/gorilla/websocket",
			"golang.org/x/net",
			"golang.org/x/sys",
			// Limits how much of the app's output the container's log gets.
			"golang.org/x/time",
		},
	},
}

// goPackage is what `go list` prints of one.
type goPackage struct {
	Dir, ImportPath string
	Standard        bool
	Imports         []string
	ImportMap       map[string]string // of vendored packages: only the standard library has any
	Module          *struct{ Path string }
}

func TestTreesImportOnlyWhatTheirListsAllow(t *testing.T) {
	var paths []string
	for _, tree := range trees {
		paths = append(paths, tree.path)
	}
	packages := listPackages(t, paths...)
	for _, tree := range trees {
		t.Run(tree.path, func(t *testing.T) {
			linked := chains(packages, module+"/"+tree.path)
			if len(linked) == 0 {
				t.Fatalf("%s has no packages: a tree that was moved is renamed in the list of trees", tree.path)
			}
			used := map[string][]string{} // what the lists name, and the shortest chain that leads to it
			for _, path := range slices.Sorted(maps.Keys(linked)) {
				name := nameInList(packages[path], tree.path)
				if chain, ok := used[name]; name != "" && (!ok || len(linked[path]) < len(chain)) {
					used[name] = linked[path]
				}
			}
			allowed := slices.Concat(tree.packages, tree.modules)
			// The shortest chain first: it is most likely the import that brought the others.
			names := slices.Sorted(maps.Keys(used))
			slices.SortStableFunc(names, func(a, b string) int { return len(used[a]) - len(used[b]) })
			for _, name := range names {
				if !slices.Contains(allowed, name) {
					t.Errorf("%s inherits %s, which its list does not allow:\n\t%s\nRemove the import, or add %s to the list of %s in imports_test.go with the reason.",
						tree.path, name, strings.Join(used[name], "\n\t-> "), name, tree.path)
				}
			}
			for _, name := range allowed {
				if _, ok := used[name]; !ok {
					t.Errorf("%s no longer inherits %s: remove it from the list in imports_test.go", tree.path, name)
				}
			}
		})
	}
}

// listPackages returns the packages of some trees and everything that they import, without tests.
func listPackages(t *testing.T, paths ...string) map[string]goPackage {
	t.Helper()
	args := []string{"list", "-deps", "-json=Dir,ImportPath,Standard,Imports,ImportMap,Module"}
	for _, path := range paths {
		args = append(args, "./"+path+"/...")
	}
	list := exec.Command("go", args...)
	list.Dir = root
	// The same on every machine.
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-mod=readonly", "GOWORK=off")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	packages := map[string]goPackage{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	watchSources(t, packages)
	return packages
}

// watchSources makes Go's test cache depend on the source of our packages.
func watchSources(t *testing.T, packages map[string]goPackage) {
	t.Helper()
	read(t, "go.mod")
	for _, p := range packages {
		if p.Module == nil || p.Module.Path != module {
			continue
		}
		watch(t, p.Dir)
		watch(t, filepath.Dir(p.Dir)) // where a new package may appear
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// chains returns the packages that a tree links and that are not the standard library's, each with a
// shortest chain of imports that begins in the tree. It is the same in every run: the search is
// breadth first and in alphabetical order.
func chains(packages map[string]goPackage, tree string) map[string][]string {
	found := map[string][]string{}
	var queue []string
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if within(path, tree) {
			found[path] = []string{path}
			queue = append(queue, path)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		at := packages[queue[0]]
		for _, next := range slices.Sorted(slices.Values(at.Imports)) {
			if mapped, ok := at.ImportMap[next]; ok {
				next = mapped
			}
			if _, ok := found[next]; ok || packages[next].ImportPath == "" || packages[next].Standard {
				continue
			}
			found[next] = append(slices.Clone(found[at.ImportPath]), next)
			queue = append(queue, next)
		}
	}
	return found
}

// nameInList returns what a list calls a package: its module, or its path when it is ours; and "" for
// the tree's own packages.
func nameInList(p goPackage, tree string) string {
	switch {
	case within(p.ImportPath, module+"/"+tree):
		return ""
	case p.Module != nil && p.Module.Path != module:
		return p.Module.Path
	default:
		return strings.TrimPrefix(p.ImportPath, module+"/")
	}
}

func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}
