// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

const (
	// childVariable has what a child copies, and ownMountsVariable is set in one that runs a test with mounts of its own.
	childVariable     = "SANDBAR_TEST_COPYUP"
	ownMountsVariable = "SANDBAR_TEST_COPYUP_MOUNTS"

	// nobody is a user that may not read what is root's.
	nobody = 65534
)

// child is what a child copies. It is killed by its own hand ahead of a step, if one is above 0.
type child struct {
	Source, Target string
	Step           int64
}

// TestProcessThatCopies is the child, as another user or to be killed.
func TestProcessThatCopies(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("runs as a child only")
	}
	var c child
	must(t, json.Unmarshal([]byte(text), &c))
	o := Options{Source: c.Source, Target: c.Target}
	if c.Step > 0 {
		var left atomic.Int64
		left.Store(c.Step)
		o.before = func(string) {
			if left.Add(-1) == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	encoded, err := Run(t.Context(), o).Encode()
	must(t, err)
	_, err = os.NewFile(3, "result").Write(encoded)
	must(t, err)
}

// runChild runs a child and returns its result; killed if it had none.
func runChild(t *testing.T, program string, c child, user *syscall.Credential) (r copywire.Result, killed bool) {
	t.Helper()
	text, err := json.Marshal(c)
	must(t, err)
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	cmd := exec.Command(program, "-test.run=^TestProcessThatCopies$")
	// With the race detector a program waits a second at its end.
	cmd.Env = append(os.Environ(), childVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{write}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	out, err := cmd.CombinedOutput()
	_ = write.Close()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return r, true
	}
	if err != nil {
		t.Fatalf("the child ended with %v: %s", err, out)
	}
	encoded, err := io.ReadAll(read)
	must(t, err)
	r, err = copywire.Parse(encoded)
	must(t, err)
	return r, false
}

// publicDir makes a directory that another user can go through, as those of t.TempDir cannot be.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sandbar-copyup") //nolint:usetesting // see above
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// podUser returns the user that a child copies as, who is not root, and a program that it can run: nil is the test's own.
func podUser(t *testing.T) (program string, user *syscall.Credential) {
	t.Helper()
	if os.Getuid() != 0 {
		return "/proc/self/exe", nil
	}
	return publicProgram(t), &syscall.Credential{Uid: nobody, Gid: nobody}
}

// publicProgram copies the test's own program to where another user can run it.
func publicProgram(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	program := filepath.Join(publicDir(t), "copyup.test")
	must(t, os.WriteFile(program, content, 0o755))
	return program
}

// inOwnMounts runs the test again as a child whose mounts nobody else sees and which are gone with it, and reports whether
// this is the child.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownMountsVariable) != "" {
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMountsVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("this user can have no mounts of its own, which needs root or user namespaces: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("with mounts of its own: %v\n%s", err, &out)
	}
	return false
}
