// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// copiedFrom runs a test for a sandbox with a runner, and for a pod of any image, both with the same files.
func copiedFrom(t *testing.T, files map[string]string, test func(t *testing.T, w *world)) {
	t.Run("a sandbox with a runner", func(t *testing.T) {
		w := newWorld(t)
		clitest.Plant(t, w.WithRunner(t, ""), files)
		test(t, w)
	})
	t.Run("a pod of any image", func(t *testing.T) {
		w := newWorld(t)
		there := t.TempDir()
		clitest.Plant(t, there, files)
		w.Pod(t, there, clitest.Programs(t, "tar"))
		test(t, w)
	})
}

func TestACopiedFileHasTheRightsOfAProgramAndOfWhatItReplaces(t *testing.T) {
	copiedFrom(t, map[string]string{"run.sh": "+run", "plain": "new"}, func(t *testing.T, w *world) {
		dir := t.TempDir()
		for name, mode := range map[string]fs.FileMode{"private": 0o600, "shared": 0o664, "was-a-program": 0o755} {
			clitest.Put(t, dir, name, "old")
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			source, destination string
			want                fs.FileMode
		}{
			{"run.sh", "tool", devsync.FileMode(nil, true)}, {"plain", "text", devsync.FileMode(nil, false)}, {"plain", "private", 0o600}, {"run.sh", "private", 0o700}, {"plain", "shared", 0o664}, {"plain", "was-a-program", 0o644},
		} {
			at := filepath.Join(dir, c.destination)
			if code, _, stderr := w.Run(t, "cp", "web:"+c.source, at); code != 0 {
				t.Fatalf("exit code %d, %q", code, stderr)
			}
			info, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != c.want {
				t.Errorf("%s as %s has the mode %o, want %o", c.source, c.destination, info.Mode().Perm(), c.want)
			}
		}
	})
}

// A copy writes into a device or a FIFO: to rename a file over /dev/null would take it from the whole machine.
func TestACopyReplacesNoDevice(t *testing.T) {
	content := strings.Repeat("x", 3000)
	copiedFrom(t, map[string]string{"f": content}, func(t *testing.T, w *world) {
		dir := t.TempDir()
		fifo := filepath.Join(dir, "fifo")
		if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("fifo", filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		for _, destination := range []string{fifo, filepath.Join(dir, "link")} {
			reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			code, _, stderr := w.Run(t, "cp", "web:f", destination)
			got, err := io.ReadAll(reader)
			if err != nil || reader.Close() != nil {
				t.Fatal(err)
			}
			if code != 0 || string(got) != content {
				t.Errorf("%s: exit code %d, %q; %d bytes were read", destination, code, stderr, len(got))
			}
			if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
				t.Errorf("%s: in the place of the FIFO is %v, %v", destination, info, err)
			}
		}
		null := filepath.Join(dir, "null")
		if err := unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil { // else there is no right to
			w.Run(t, "cp", "web:f", null) // which fails where a file system has no devices
			if info, err := os.Lstat(null); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
				t.Errorf("in the place of the device is %v, %v", info, err)
			}
		}
		if code, stdout, stderr := w.Run(t, "cp", "web:f", "/dev/stdout"); code != 0 || stdout != content {
			t.Errorf("/dev/stdout: exit code %d, %q; %d bytes", code, stderr, len(stdout))
		}
	})
}

// To write over the file of a program that runs fails, or ends the program.
func TestACopyOverARunningProgramLetsItRun(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	copyOver := func(t *testing.T, w *world, there string) {
		program := filepath.Join(there, "tool")
		if err := os.WriteFile(program, content, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		clitest.Put(t, dir, "tool", "new")
		if code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "tool"), "web:tool"); code != 0 || clitest.ContentOf(there, "tool") != "new" {
			t.Errorf("exit code %d, %q; there is %.20q", code, stderr, clitest.ContentOf(there, "tool"))
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the program has ended: %v", err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("the program ended otherwise: %v", err)
		}
	}
	t.Run("a sandbox with a runner", func(t *testing.T) {
		w := newWorld(t)
		copyOver(t, w, w.WithRunner(t, ""))
	})
	t.Run("a pod of any image", func(t *testing.T) {
		w, there := newWorld(t), t.TempDir()
		w.Pod(t, there, clitest.Programs(t, "tar"))
		copyOver(t, w, there)
	})
}
