// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCopyToAndFromASandbox(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.withRunner(t, "")
	binary := strings.Repeat("\x00\xff\n", 200_000)
	put(t, dir, "a.bin", binary)
	here := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"cp", here("a.bin"), "web:sub/b.bin"}, {"cp", here("a.bin"), "web:sub/"}, {"cp", "web:sub/b.bin", here("back.bin")}, {"cp", "web:sub/a.bin", dir + "/"},
	} {
		if code, stdout, stderr := w.run(t, args...); code != 0 || stdout != "" {
			t.Fatalf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for name, got := range map[string]string{
		"sub/b.bin": contentOf(workspace, "sub/b.bin"), "sub/a.bin": contentOf(workspace, "sub/a.bin"), "back.bin": contentOf(dir, "back.bin"),
	} {
		if got != binary {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
	if _, stdout, _ := w.run(t, "cp", "web:sub/a.bin", "-"); stdout != binary {
		t.Errorf("stdout has %d bytes", len(stdout))
	}
	if code, _, stderr := w.run(t, "cp", "web:none", here("none")); code != exitFailure || !strings.Contains(stderr, "no such file") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(here("none")); err == nil {
		t.Error("a copy that failed left a file")
	}
	for _, args := range [][]string{{"cp", "a", "b"}, {"cp", "web:a", "web:b"}, {"cp", "web:a"}} {
		if code, _, _ := w.run(t, args...); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
