// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podexec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a fact is waited for; a test that passes never waits so long.
const patience = 3 * time.Minute

// shells are those of this machine that images have as sh.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, command := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		if path, err := exec.LookPath(command[0]); err == nil {
			found[name] = append([]string{path}, command[1:]...)
		}
	}
	if len(found) == 0 {
		t.Fatal("this machine has no shell: install dash")
	}
	return found
}

// end runs what ends the processes of a command, with a shell in place of sh.
func end(c Command, shell []string, wait time.Duration) error {
	args := c.End(wait)
	cmd := exec.Command(shell[0], slices.Concat(shell[1:], args[1:])...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("it says %q: %w", out, err)
	}
	return nil
}

// run begins a marked shell script as a container runtime does, as the leader of a session, and returns the numbers
// that it prints in its first line.
func run(t *testing.T, c Command, changes ...func(*exec.Cmd)) (pids []int) {
	t.Helper()
	args := c.Marked()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LINES=a\nb", "EMPTY=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, change := range changes {
		change(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It is reaped, as a container's first process does.
	ended := make(chan struct{})
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-ended })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	for text := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	}
	return pids
}

// isGone reports whether a process has ended: its parent need not have noticed.
func isGone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// isProgram waits until a process has become a program.
func isProgram(t *testing.T, pid int, name string) {
	t.Helper()
	waitFor(t, name, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.HasPrefix(string(b), name)
	})
}

// family is a command whose processes are related to it, and react to signals, in all ways.
const family = `
sleep 600 & one=$!
setsid sleep 600 & session=$!
nohup sleep 600 >/dev/null 2>&1 & hangup=$!
(trap '' HUP INT TERM; while :; do sleep 600; done) & stubborn=$!
sleep 600 & stopped=$!; kill -STOP $stopped
sh -c "trap 'sleep 600 & exit' HUP; while :; do sleep 1; done" & begins=$!
orphan=$(sleep 600 >/dev/null & echo $!)
echo $$ $one $session $hangup $stubborn $stopped $begins $orphan
wait
`

// However its processes are related, all that a command has left is ended, and nothing else.
func TestAllThatACommandHasLeftIsEnded(t *testing.T) {
	for name, program := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := New([]string{"sh", "-c", family}, false)
			other, _ := New([]string{"sh", "-c", "echo $$; exec sleep 600"}, false)
			pids, neighbour := run(t, c), run(t, other)
			if len(pids) != 8 {
				t.Fatalf("it has begun %v", pids)
			}
			for _, pid := range pids {
				if isGone(pid) {
					t.Errorf("%d has gone before", pid)
				}
			}
			if err := end(c, program, 0); err != nil {
				t.Error(err)
			}
			if got := marked(t, c); len(got) > 0 {
				t.Errorf("%v are left", got)
			}
			for _, pid := range pids {
				waitFor(t, "the end of "+strconv.Itoa(pid), func() bool { return isGone(pid) })
			}
			if isGone(neighbour[0]) {
				t.Error("another command has gone too")
			}
		})
	}
}

// marked are the processes with a command's mark.
func marked(t *testing.T, c Command) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(Variable+"="+c.mark)) {
			pids = append(pids, file)
		}
	}
	return pids
}

// A process that is to stay takes the mark off.
func TestWhatTakesTheMarkOffStays(t *testing.T) {
	c, _ := New([]string{"sh", "-c", "env -u SANDBAR_EXEC sleep 600 & echo $$ $!; wait"}, false)
	pids := run(t, c)
	isProgram(t, pids[1], "sleep")
	if err := end(c, []string{"sh"}, 0); err != nil {
		t.Error(err)
	}
	waitFor(t, "the end of the shell", func() bool { return isGone(pids[0]) })
	if isGone(pids[1]) {
		t.Error("it has gone")
	}
}

// A caller can go before the container runtime has begun its command.
func TestWhatBeginsALittleLaterIsEnded(t *testing.T) {
	for name, program := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := New([]string{"sh", "-c", "echo $$; exec sleep 600"}, false)
			ended := make(chan error, 1)
			go func() { ended <- end(c, program, patience) }()
			waitFor(t, "the script", func() bool { return looksFor(c) })
			pids := run(t, c)
			if err := <-ended; err != nil || !isGone(pids[0]) {
				t.Errorf("it has gone: %v (%v)", isGone(pids[0]), err)
			}
		})
	}
}

// looksFor reports whether the script that looks for a command's processes runs.
func looksFor(c Command) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(files, func(file string) bool {
		b, _ := os.ReadFile(file)
		return bytes.Contains(b, []byte(Variable+"="+c.mark)) && bytes.Contains(b, []byte("sandbar\x00"))
	})
}

func TestWithoutProcessesTheScriptEndsInTime(t *testing.T) {
	for name, program := range shells(t) {
		t.Run(name, func(t *testing.T) {
			c, _ := New([]string{"true"}, false)
			for _, wait := range []time.Duration{0, 2 * tenth} {
				if err := end(c, program, wait); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The environment of another user's process cannot be read, and nothing else tells whose it is.
func TestAnotherUsersProcessIsNotFound(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	c, _ := New([]string{"sh", "-c", "echo $$; exec sleep 600"}, false)
	as := func(uid uint32) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid} }
	}
	pids := run(t, c, as(65001))
	args := c.End(0)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	as(65002)(cmd)
	if err := cmd.Run(); err != nil || isGone(pids[0]) {
		t.Errorf("it has gone: %v (%v)", isGone(pids[0]), err)
	}
}

// What env says of a program that it cannot run is understood, and what it says of nothing else.
func TestEnvsComplaintIsUnderstood(t *testing.T) {
	envs := map[string][]string{"the machine's": {"env"}}
	if path, err := exec.LookPath("busybox"); err == nil {
		envs["busybox's"] = []string{path, "env"}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for whose, env := range envs {
		for name, c := range map[string]struct {
			program, words string
		}{
			"no such program":        {"nosuch-program", `exec: "nosuch-program": executable file not found in $PATH`},
			"no such file":           {dir + "/nosuch", `exec: "` + dir + `/nosuch": no such file or directory`},
			"one without the right":  {dir + "/data", `exec: "` + dir + `/data": permission denied`},
			"a directory":            {dir, `exec: "` + dir + `": permission denied`},
			"a name with a dash":     {"-i", `exec: "-i": executable file not found in $PATH`},
			"a name of dashes alone": {"--", `exec: "--": executable file not found in $PATH`},
		} {
			for _, locale := range []string{"C", "C.UTF-8"} {
				t.Run(whose+" "+name+" "+locale, func(t *testing.T) {
					command, _ := New([]string{c.program, "x"}, false)
					cmd := exec.Command(env[0], slices.Concat(env[1:], command.Marked()[1:])...)
					var stderr bytes.Buffer
					cmd.Env, cmd.Stderr = []string{"PATH=/usr/bin:/bin", "LC_ALL=" + locale}, &stderr
					var exit *exec.ExitError
					if err := cmd.Run(); !errors.As(err, &exit) {
						t.Fatal(err)
					}
					f, _, _ := nextFrame(message(2, stderr.String()))
					said, _, _ := nextFrame(exited(exit.ExitCode()))
					status, _ := readStatus(said.data[1:])
					text, ok := command.asRuntime(&status)
					told, _ := readStatus(text)
					if !command.mayComplain(f, nil) || !ok || told.Message != c.words {
						t.Errorf("%q with code %d is told as %q, want %q", stderr.String(), exit.ExitCode(), told.Message, c.words)
					}
				})
			}
		}
	}
}
