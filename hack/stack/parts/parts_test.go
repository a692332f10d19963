// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/hack/stack/progress"
)

func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hack", "thing")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func sources() map[string]string {
	return map[string]string{
		"go.mod":  "module example.test/thing\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() { println(\"one\") }\n",
	}
}

var thing = Part{Name: "thing", Module: "thing", Packages: []string{"."}}

func TestKey(t *testing.T) {
	base := func(t *testing.T) string {
		key, err := thing.Key(module(t, sources()), "go1")
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	tests := map[string]struct {
		change  func(files map[string]string, p *Part)
		version string
		same    bool
	}{
		"the same sources in another folder have the same key": {func(map[string]string, *Part) {}, "go1", true},
		"a changed source changes it":                          {func(f map[string]string, _ *Part) { f["main.go"] += "\n" }, "go1", false},
		"a further source changes it":                          {func(f map[string]string, _ *Part) { f["x.go"] = "package main\n" }, "go1", false},
		"a renamed source changes it":                          {func(f map[string]string, _ *Part) { f["other.go"] = f["main.go"]; delete(f, "main.go") }, "go1", false},
		"a changed dependency changes it":                      {func(f map[string]string, _ *Part) { f["go.mod"] += "\n" }, "go1", false},
		"another Go changes it":                                {func(map[string]string, *Part) {}, "go2", false},
		"a build tag changes it":                               {func(_ map[string]string, p *Part) { p.Tags = "seccomp" }, "go1", false},
		"linking against C changes it":                         {func(_ map[string]string, p *Part) { p.CGO = true }, "go1", false},
		"a further link changes it":                            {func(_ map[string]string, p *Part) { p.Links = []string{"x"} }, "go1", false},
		"another version to tell changes it":                   {func(_ map[string]string, p *Part) { p.VersionOf = []string{"x"} }, "go1", false},
		"copied folders change it":                             {func(_ map[string]string, p *Part) { p.CopyFrom = map[string]string{"a//b": "c"} }, "go1", false},
		"a test does not change it":                            {func(f map[string]string, _ *Part) { f["main_test.go"] = "package main\n" }, "go1", true},
		"what a build leaves in a hidden folder does not":      {func(f map[string]string, _ *Part) { f[".work/x.go"] = "package x\n" }, "go1", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files, part := sources(), thing
			tt.change(files, &part)
			key, err := part.Key(module(t, files), tt.version)
			if err != nil {
				t.Fatal(err)
			}
			if (key == base(t)) != tt.same {
				t.Errorf("key %s, base %s, want same=%t", key, base(t), tt.same)
			}
		})
	}
}

func run(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestBuildIsDoneOncePerContent(t *testing.T) {
	var said strings.Builder
	progress.Out = &said
	t.Cleanup(func() { progress.Out = io.Discard })
	dir, cache := module(t, sources()), t.TempDir()
	build := func() string {
		said.Reset()
		built, err := Build(t.Context(), filepath.Dir(dir), cache, []Part{thing})
		if err != nil {
			t.Fatal(err)
		}
		return built.Bin("thing", "thing")
	}
	first := build()
	if got := run(t, first); got != "one" || !strings.Contains(said.String(), "thing built") {
		t.Errorf("it prints %q, progress %q", got, said.String())
	}
	if second := build(); second != first || !strings.Contains(said.String(), "cached") {
		t.Errorf("built again: %s, then %s, progress %q", first, second, said.String())
	}
	changed := strings.ReplaceAll(sources()["main.go"], "one", "two")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if third := build(); third == first || run(t, third) != "two" || run(t, first) != "one" {
		t.Error("the changed source was not built beside the old one")
	}
}

func TestAFailedBuildLeavesNothingAndShowsTheCompilersWords(t *testing.T) {
	progress.Out = io.Discard
	files := sources()
	files["main.go"] = "package main\n\nfunc main() { undefinedThing() }\n"
	dir, cache := module(t, files), t.TempDir()
	_, err := Build(t.Context(), filepath.Dir(dir), cache, []Part{thing})
	if err == nil || !strings.Contains(err.Error(), "undefinedThing") {
		t.Errorf("error %v does not show why", err)
	}
	left, err := os.ReadDir(filepath.Join(cache, "bin"))
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestTheLeftoverOfAKilledBuildIsNotTakenForABuild(t *testing.T) {
	progress.Out = io.Discard
	dir, cache := module(t, sources()), t.TempDir()
	half := filepath.Join(cache, "bin", ".building-thing")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "junk"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	built, err := Build(t.Context(), filepath.Dir(dir), cache, []Part{thing})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built.Bin("thing", "junk")); err == nil {
		t.Error("the killed build's file is in the cache")
	}
}

func TestNamed(t *testing.T) {
	started, err := Named(nil)
	if err != nil || len(started) != len(All)-1 || slices.ContainsFunc(started, func(p Part) bool { return p.Name == "traefik" }) {
		t.Errorf("no names give %d parts, %v, want all that a stack starts with", len(started), err)
	}
	if gateway, err := Named([]string{"traefik"}); err != nil || len(gateway) != 1 {
		t.Errorf("got %v, %v", gateway, err)
	}
	two, err := Named([]string{"runc", "kcp"})
	if err != nil || len(two) != 2 || two[0].Name != "runc" {
		t.Errorf("got %v, %v", two, err)
	}
	if _, err := Named([]string{"nope"}); err == nil {
		t.Error("an unknown part was found")
	}
}

func TestEveryPartHasItsModule(t *testing.T) {
	for _, p := range All {
		if _, err := os.Stat(filepath.Join("..", "..", p.Module)); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}
