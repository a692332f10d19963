// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestCopyToAndFromASandbox(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	binary := strings.Repeat("\x00\xff\n", 200_000)
	clitest.Put(t, dir, "a.bin", binary)
	here := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"cp", here("a.bin"), "web:sub/b.bin"}, {"cp", here("a.bin"), "web:sub/"}, {"cp", "web:sub/b.bin", here("back.bin")}, {"cp", "web:sub/a.bin", dir + "/"},
	} {
		if code, stdout, stderr := w.Run(t, args...); code != 0 || stdout != "" {
			t.Fatalf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for name, got := range map[string]string{
		"sub/b.bin": clitest.ContentOf(workspace, "sub/b.bin"), "sub/a.bin": clitest.ContentOf(workspace, "sub/a.bin"), "back.bin": clitest.ContentOf(dir, "back.bin"),
	} {
		if got != binary {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
	if _, stdout, _ := w.Run(t, "cp", "web:sub/a.bin", "-"); stdout != binary {
		t.Errorf("stdout has %d bytes", len(stdout))
	}
	if code, _, stderr := w.Run(t, "cp", "web:none", here("none")); code != cli.ExitFailure || !strings.Contains(stderr, "no such file") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(here("none")); err == nil {
		t.Error("a copy that failed left a file")
	}
	for _, args := range [][]string{{"cp", "a", "b"}, {"cp", "web:a", "web:b"}, {"cp", "web:a"}} {
		if code, _, _ := w.Run(t, args...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
