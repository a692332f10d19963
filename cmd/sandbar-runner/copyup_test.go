// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// anImage makes what an init container of an app's image has: the app's files, the runner and the volume, and neither a
// shell nor a library. Root alone may write to it, but for the volume and the termination message.
func anImage(t *testing.T) string {
	t.Helper()
	// The folder is opened to another user, and t.TempDir lies below one that is not.
	dir, err := os.MkdirTemp("/tmp", "sandbar-runner-test") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"": 0o755, "app/src": 0o755, "sandbar/bin": 0o755, "dev": 0o755, "srv": 0o755, "volume": 0o777} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, path), 0o755), os.Chmod(filepath.Join(dir, path), mode))
	}
	for path, mode := range map[string]os.FileMode{"app/run": 0o755, "app/src/main": 0o644, "sandbar/bin/sandbar-runner": 0o755, "dev/termination-log": 0o666} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, path), content, 0o644), os.Chmod(filepath.Join(dir, path), mode))
	}
	if err = errors.Join(err, os.Symlink("src/main", filepath.Join(dir, "app/link"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inImage runs the image's runner as its user, with the image as its root.
func inImage(t *testing.T, image string, args ...string) (code int, r copywire.Result, stderr string) {
	t.Helper()
	c := exec.Command("/sandbar/bin/sandbar-runner", args...)
	c.Env, c.Dir = []string{}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(image, "dev/termination-log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) <= copywire.MaxBytes {
		if r, err = copywire.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return c.ProcessState.ExitCode(), r, string(out)
}

func TestCopyUpRunsInAnImageThatHasNothingButTheApp(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for another root directory")
	}
	image := anImage(t)
	for _, step := range []struct {
		name   string
		args   []string
		code   int
		reason copywire.Reason // "" for none
		words  string
	}{
		{"without a volume", []string{"copy-up", "/app"}, 2, "", "usage: "},
		{"of nothing", []string{"copy-up", "/nowhere", "/volume"}, 5, copywire.InvalidSource, "InvalidSource: /nowhere does not exist in the image"},
		{"to a directory of the image", []string{"copy-up", "/app", "/srv"}, 1, copywire.CopyFailed, "CopyFailed: opening .sandbar of the volume: permission denied"},
		{"of the app", []string{"copy-up", "/app", "/volume"}, 0, copywire.Copied, "Copied: copied 3 files of /app"},
		{"again", []string{"copy-up", "/app", "/volume"}, 0, copywire.AlreadyCopied, "AlreadyCopied: the volume has the files"},
	} {
		code, r, out := inImage(t, image, step.args...)
		if code != step.code || r.Reason != step.reason || !strings.Contains(out, step.words) {
			t.Errorf("%s: exit code %d, %+v: %s", step.name, code, r, out)
		}
	}
	for path, mode := range map[string]os.FileMode{"run": 0o755, "src/main": 0o644, "link": os.ModeSymlink | 0o777} {
		info, err := os.Lstat(filepath.Join(image, "volume/.sandbar-workspace", path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if out, err := exec.Command("cp", "-r", filepath.Join(image, "app"), filepath.Join(image, "volume/mine")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(image, "volume/.sandbar/state")); err != nil {
		t.Fatal(err)
	}
	if code, r, out := inImage(t, image, "copy-up", "/app", "/volume"); code != 4 || r.Reason != copywire.TargetNotEmpty {
		t.Errorf("a volume with files: exit code %d, %+v: %s", code, r, out)
	}
}
