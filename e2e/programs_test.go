// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/client"
)

// TestTrustInOneStep: a person with nothing but a kubeconfig trusts the data plane of their workspace in one step,
// with the CA that the binding's hash vouches for; before that, nothing is created for them.
func TestTrustInOneStep(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	code, _, notes := s.run("dev", "early", s.dir, "--create")
	if code != 1 || !strings.Contains(notes, "nothing has been created") || !strings.Contains(notes, "sandbar trust "+world.URL) {
		t.Errorf("before: exit code %d, %s", code, notes)
	}
	if _, err := tn.dyn.Resource(runners).Namespace("default").Get(t.Context(), "early", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("before the data plane is trusted there is a SandboxRunner: %v", err)
	}
	if code, list, notes := s.run("trust"); code != 1 || !strings.HasSuffix(list, "\tnot trusted\n") || !strings.Contains(notes, "run sandbar trust --yes") {
		t.Errorf("before, without a terminal: exit code %d, the list %q, %s", code, list, notes)
	}
	s.must("trust", "--yes")
	if list := s.must("trust"); !strings.HasPrefix(list, world.URL+"\t") || !strings.HasSuffix(list, "\ttrusted\n") {
		t.Errorf("afterwards, the list says %q", list)
	}
	tn.runner("web").waitReady()
	if got := s.must("exec", "web", "--", "echo", "trusted"); got != "trusted\n" {
		t.Errorf("a command prints %q", got)
	}
}

// TestProgramsOfYourOwn runs the programs of examples/programs as docs/cli.md says: each finds the data plane from
// the workspace and calls verbs with the kubeconfig's own token.
func TestProgramsOfYourOwn(t *testing.T) {
	long(t, "it fetches from the npm registry")
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	tn.create(runners, "SandboxRunner", "web", map[string]any{"projectRef": "e2e", "startCommand": "echo it runs; exec sleep 1d"}).waitReady()
	examples, err := filepath.Abs(filepath.Join("..", "examples", "programs"))
	if err != nil {
		t.Fatal(err)
	}
	program := func(name string, args ...string) (string, error) {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(slices.Clone(s.env), "PATH="+world.Stack.Tools()+":"+os.Getenv("PATH"))
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if err != nil {
			t.Logf("%s says %s", name, errs.String())
		}
		return out.String() + errs.String(), err
	}
	compiled := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", compiled, "./go")
	build.Dir = examples
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program in Go: %v\n%s", err, text)
	}
	python := []string{"python3", filepath.Join(examples, "python", "sandbox.py"), "web"}
	typescript := []string{node22(t), filepath.Join(examples, "typescript", "sandbox.ts"), "web"}

	// The address in the status is the provider's word: no program sends a token there by itself.
	if got, err := program(compiled, "web", "true"); err == nil || !strings.Contains(got, "is not trusted with your credential") {
		t.Errorf("the program in Go, before the data plane is trusted: %v, %s", err, got)
	}
	// As in the shell of make demo, the command and the programs share a folder that the variable names.
	config := t.TempDir()
	s.env = append(s.env, client.ConfigDirVariable+"="+config)
	empty := filepath.Join(config, "trust.json")
	if err := os.WriteFile(empty, []byte(`{"dataPlanes":[{"url":"https://another.example.com"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]string{append(python, "a", "b"), typescript} {
		if got, err := program(p[0], p[1:]...); err == nil || !strings.Contains(got, "is not trusted: run sandbar trust") {
			t.Errorf("%s, before the data plane is trusted: %v, %s", p[1], err, got)
		}
	}
	s.must("trust", "--yes")
	for _, c := range []struct {
		program []string
		prints  string
	}{
		{append(python, "greeting", "hello\n"), "greeting\n"},
		{[]string{compiled, "web", "cat", "greeting"}, "hello\n"},
		{typescript, "it runs\n"},
	} {
		if got, err := program(c.program[0], c.program[1:]...); err != nil || !strings.Contains(got, c.prints) {
			t.Errorf("%v prints %q (%v), want %q in it", c.program, got, err, c.prints)
		}
	}
	if _, err := program(compiled, "web", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a command that exits with 7 ends the program in Go with %v", err)
	}
}

// node22 is a Node that runs TypeScript: that of the Node toolchain's lock file.
func node22(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join("..", "hack", "stack", "images", "node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("installing Node: %v\n%s", err, text)
	}
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", "node-linux-*", "bin", "node"))
	if err != nil || len(found) != 1 {
		t.Fatalf("Node is at %v, %v", found, err)
	}
	return found[0]
}
