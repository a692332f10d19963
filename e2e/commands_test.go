// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCommandsOfASandbox runs the commands that no other test of the real stack runs, in the order in which a person could.
func TestCommandsOfASandbox(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	says := func(want string, args ...string) {
		t.Helper()
		code, out, errs := s.run(args...)
		if code != 0 || !strings.Contains(out+errs, want) {
			t.Errorf("sandbar %s: exit code %d, %q, %q, want %q", strings.Join(args, " "), code, out, errs, want)
		}
	}
	says("sandbar version ", "version")
	says("sandboxrunners", "__complete", "get", "sandboxr")
	if out := s.must("completion", "bash"); !strings.Contains(out, "__start_sandbar") {
		t.Error("the completion for bash is not a script for sandbar")
	}
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	s.write("spec.yaml", "apiVersion: sandbar.dev/v1alpha1\nkind: SandboxTemplate\nspec: {template: {spec: {containers: [{name: main, image: "+toolchain+", command: [sleep, infinity]}]}}}\n")
	says("own created", "create", "sandboxtemplate", "own", "-f", s.dir+"/spec.yaml")
	says("claimed", "claim", "own", "--name", "claimed", "--wait", "5m")
	created.Add(1)
	end := time.Now().Add(240 * time.Hour).UTC().Truncate(time.Second)
	s.must("create", "sandboxrunner", "web", "--set", "projectRef=e2e", "--set", "startCommand=exec sleep 3600", "--set", "lifecycle.shutdownTime="+end.Format(time.RFC3339))
	created.Add(1)
	says("web has the condition Ready=True", "wait", "sandboxrunner", "web")

	says("web annotated", "annotate", "sandboxrunner", "web", "example.com/ticket=OPS-7")
	editor := filepath.Join(s.dir, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/OPS-7/OPS-8/' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "EDITOR="+editor, "KUBE_EDITOR=")
	says("web edited", "edit", "sandboxrunner", "web")
	says("OPS-8", "get", "sandboxrunner", "web", "-o", "jsonpath={.metadata.annotations.example\\.com/ticket}")

	says("", "renew", "web", "--extend", "2h")
	says(end.Add(2*time.Hour).Format(time.RFC3339), "get", "sandboxrunner", "web", "-o", "jsonpath={.spec.lifecycle.shutdownTime}")
	says("", "restart", "web")
	s.commandsThatGoOn()

	version := s.must("get", "sandboxrunner", "web", "-o", "jsonpath={.metadata.resourceVersion}")
	s.must("label", "sandboxrunner", "web", "seen=yes")
	s.refused("web has changed since version "+version, "suspend", "web", "--resource-version", version)
	says("web is suspended", "suspend", "web")
	s.refused("web has changed since version "+version, "resume", "web", "--resource-version", version)
	says("web has been resumed, and is Ready", "resume", "web")
	says("", "untrust", world.URL)
	s.refused("is not trusted with your credential. If it is your provider's, run: sandbar trust ", "logs", "web")
	s.refused("there is no workspace root:not-there: name another one with --workspace", "get", "sandboxrunners", "--workspace", "root:not-there")
	says("web", "get", "sandboxrunners", "-o", "name", "--server", strings.TrimSuffix(world.Stack.KCPUser(tn.user, tn.path).Host, "/clusters/"+tn.path), "--workspace", tn.path)
}

// commandsThatGoOn begins a command in the sandbox, lists it, joins it and ends it.
func (s *terminal) commandsThatGoOn() {
	s.t.Helper()
	first, _, stop := s.begin("exec", "web", "--", "sh", "-c", "echo begun; exec sleep 1000")
	defer stop()
	await(s.t, first, "begun")
	if got := s.must("exec", "web", "--list"); !strings.Contains(got, "sleep 1000") {
		s.t.Errorf("the list is %q", got)
	}
	joined, _, leave := s.begin("attach", "web")
	await(s.t, joined, "begun")
	s.must("kill", "web")
	if code := leave(); code == 0 {
		s.t.Error("a command that was ended exits with 0")
	}
}

// inTests find the command that a test runs, in the ways in which tests here run commands, and those of the quick start.
var inTests = []*regexp.Regexp{
	regexp.MustCompile(`\b[sq]\.(?:run|must|begin)\((?:"--resource", "[^"]*", )?"([a-z-]+)"`),
	regexp.MustCompile(`\b(?:s\.refused|says)\([^\n]*?, "([a-z-]+)"`),
	regexp.MustCompile(`login := \[\]string\{"([a-z-]+)"`),
	regexp.MustCompile(`s\.program \+ " ([a-z-]+) `),
	regexp.MustCompile(`(?m)^\$ sandbar ([a-z-]+)`),
}

// TestEachCommandIsRunOnTheStack keeps a command from being tried nowhere but in front of a server of a unit test.
func TestEachCommandIsRunOnTheStack(t *testing.T) {
	calm(t)
	s := newTerminal(t, newWorkspace(t, "alice"))
	ran := map[string]bool{"help": true} // each --help is one
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../docs/quickstart.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range inTests {
			for _, found := range way.FindAllStringSubmatch(string(text), -1) {
				ran[found[1]] = true
			}
		}
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`).FindAllStringSubmatch(s.must("--help"), -1)
	if len(commands) < 38 {
		t.Fatalf("sandbar --help lists %d commands: %v", len(commands), commands)
	}
	for _, c := range commands {
		if !ran[c[1]] {
			t.Errorf("no test runs sandbar %s on the real stack", c[1])
		}
	}
}

const (
	// mostStartBytes and mostStartAllocations bound what the packages of the command line make before main begins. On a machine
	// of two cores, 2.1 MB in 16,700 pieces take 5 to 12 ms of the 60 ms that a person waits for --help at most; half of what is
	// made is Kubernetes' table of types.
	mostStartBytes       = 4 << 20
	mostStartAllocations = 30_000
)

// initialized is a line of GODEBUG=inittrace=1.
var initialized = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, \S+ ms clock, (\d+) bytes, (\d+) allocs$`)

// TestHelpStartsWithLittle keeps sandbar --help quick by counting what it makes at its start: beside load a count stays what it
// is, where a time does not. make bench-cli measures the time.
func TestHelpStartsWithLittle(t *testing.T) {
	calm(t)
	s := newTerminal(t, newWorkspace(t, "alice"))
	s.env = append(s.env, "GODEBUG=inittrace=1", "KUBECONFIG=/nowhere", "HOME=/nowhere")
	code, out, trace := s.run("--help")
	if code != 0 || !strings.Contains(out, "This program:") {
		t.Fatalf("exit code %d without a kubeconfig and a home: %s", code, trace)
	}
	type part struct {
		name          string
		bytes, pieces int
	}
	var whole part
	var parts []part
	for _, found := range initialized.FindAllStringSubmatch(trace, -1) {
		size, err := strconv.Atoi(found[2])
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := strconv.Atoi(found[3])
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part{found[1], size, pieces})
		whole.bytes, whole.pieces = whole.bytes+size, whole.pieces+pieces
	}
	slices.SortFunc(parts, func(a, b part) int { return b.bytes - a.bytes })
	t.Logf("%d packages make %d bytes in %d pieces before main", len(parts), whole.bytes, whole.pieces)
	if len(parts) < 100 || whole.bytes > mostStartBytes || whole.pieces > mostStartAllocations {
		t.Errorf("%d packages make %d bytes in %d pieces before main, at most %d in %d are meant: the largest are %v",
			len(parts), whole.bytes, whole.pieces, mostStartBytes, mostStartAllocations, parts[:min(5, len(parts))])
	}
}
