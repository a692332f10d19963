// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is built without a version calls itself "dev", and then nobody can say which provider runs.
func TestTheVersionIsThatOfTheCheckout(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "hack", "version.sh")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(read(t, "hack/version.sh")), 0o755); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	want := func(pattern string) {
		t.Helper()
		out, err := exec.Command(script).Output()
		if got := strings.TrimSpace(string(out)); err != nil || !regexp.MustCompile("^"+pattern+"$").MatchString(got) {
			t.Errorf("%s (%v), want %s", got, err, pattern)
		}
	}
	want("dev")
	git("init", "-q")
	want("dev") // there is no commit yet
	git("add", "-A")
	git("commit", "-qm", "first")
	want("[0-9a-f]{7,}")
	git("tag", "v1.2.0")
	want(`v1\.2\.0`)
	git("commit", "-q", "--allow-empty", "-m", "second")
	want("v1\\.2\\.0-1-g[0-9a-f]{7,}")
	if err := os.WriteFile(script, []byte(read(t, "hack/version.sh")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	want("v1\\.2\\.0-1-g[0-9a-f]{7,}-dirty")
}

// The linker sets a variable that is not there without an error.
func TestEveryBinaryHasTheVariableThatTheBuildStamps(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("%v %v", mains, err)
	}
	for _, path := range mains {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nvar version = \"dev\"\n") {
			t.Errorf("%s has no variable version of package main", path)
		}
	}
	for _, path := range []string{"Makefile", "hack/install.sh"} {
		if text := read(t, path); !strings.Contains(text, "-X main.version=") || !strings.Contains(text, "hack/version.sh") {
			t.Errorf("%s builds without the version of the checkout", path)
		}
	}
}
