// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

func (w *world) commands(t *testing.T) []client.Command {
	t.Helper()
	code, stdout, stderr := w.Run(t, "exec", "web", "--list", "-o", "json")
	if code != 0 {
		t.Fatalf("exec --list: exit code %d, %s", code, stderr)
	}
	var list []client.Command
	for line := range strings.Lines(stdout) {
		var c client.Command
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func TestExecTellsFailuresApart(t *testing.T) {
	w := newWorld(t)
	workspace := w.WithRunner(t, "")
	clitest.Put(t, workspace, "text", "no program")
	runner := w.Plane
	for name, c := range map[string]struct {
		args   []string
		plane  http.HandlerFunc
		code   int
		stderr string
	}{
		"the command's own code, which can be ours": {[]string{"--", "sh", "-c", "exit 125"}, nil, 125, ""},
		"there is no such program":                  {[]string{"--", "nothing"}, nil, 127, "sandbar: starting the command: \"nothing\" is not in the PATH: file does not exist\n"},
		"it cannot be run":                          {[]string{"--", "./text"}, nil, 126, "sandbar: starting the command: \"" + workspace + "/text\": permission denied\n"},
		"there is no such directory":                {[]string{"--dir", "none", "--", "true"}, nil, 125, "sandbar: starting the command: its directory: stat " + workspace + "/none: no such file or directory\n"},
		"the data plane refuses": {[]string{"--", "true"}, func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, "access denied", http.StatusForbidden)
		}, 125, "sandbar: running the command: calling exec: 403: access denied\n"},
		"the pod's runtime finds no program": {[]string{"--", "x"}, clitest.PodVerb(t, clitest.PodExec, func(r *http.Request, conn *wsconn.Conn) {
			_ = conn.Write(r.Context(), []byte("\x03"+`{"status":"Failure","message":"error executing command in container: exec: \"x\": executable file not found in $PATH: unknown"}`))
		}), 127, "sandbar: error executing command in container: exec: \"x\": executable file not found in $PATH: unknown\n"},
		"it is called wrongly": {nil, nil, cli.ExitUsage, "sandbar: exec takes NAME, -- and a command; see sandbar exec --help\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if w.Serve(runner); c.plane != nil {
				w.Serve(c.plane)
			}
			if code, _, stderr := w.Run(t, append([]string{"exec", "web"}, c.args...)...); code != c.code || stderr != c.stderr {
				t.Errorf("exit code %d, want %d; %s", code, c.code, stderr)
			}
		})
	}
}

func TestCommandsAreListedJoinedAndEnded(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	if code, stdout, stderr := w.Run(t, "exec", "web", "--list"); code != 0 || stdout != "" || !strings.Contains(stderr, "No command runs") {
		t.Errorf("exec --list of nothing: exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := w.Run(t, "attach", "web"); code != cli.ExitOurs || stderr != "sandbar: no command runs in web\n" {
		t.Errorf("attach to nothing: exit code %d, %q", code, stderr)
	}
	script := "echo ready; exec sleep 1000"
	out, errs, ended := w.Begin(t.Context(), strings.NewReader(""), "exec", "web", "--", "sh", "-c", script)
	clitest.Await(t, out, "ready\n")
	list := w.commands(t)
	if len(list) != 1 || !list[0].Attached || strings.Join(list[0].Args, " ") != "sh -c "+script {
		t.Fatalf("there are %+v", list)
	}
	if _, stdout, _ := w.Run(t, "exec", "web", "--list"); !strings.Contains(stdout, list[0].ID+"   attached   ") || !strings.HasSuffix(stdout, "sh -c "+script+"\n") {
		t.Errorf("exec --list prints %q", stdout)
	}
	out2, _, ended2 := w.Begin(t.Context(), strings.NewReader(""), "attach", "web", strings.ToLower(list[0].ID[:4]))
	clitest.Await(t, out2, "ready\n")
	if code := <-ended; code != cli.ExitOurs || errs.String() != "sandbar: running the command: somebody else has attached to the command, which goes on there\n" {
		t.Errorf("the one that had it: exit code %d, %q", code, errs)
	}
	if code, _, stderr := w.Run(t, "kill", "web", "--signal", "usr1x"); code != cli.ExitUsage || !strings.Contains(stderr, "--signal") {
		t.Errorf("a wrong signal: exit code %d, %q", code, stderr)
	}
	if code, _, stderr := w.Run(t, "kill", "web", "zzz"); code != cli.ExitFailure || !strings.Contains(stderr, `begins with "zzz"; sandbar exec web --list shows them`) {
		t.Errorf("a wrong ID: exit code %d, %q", code, stderr)
	}
	if code, _, stderr := w.Run(t, "kill", "web"); code != 0 || stderr != "The command has ended with exit code 129.\n" {
		t.Errorf("kill: exit code %d, %q", code, stderr)
	}
	if code := <-ended2; code != 129 {
		t.Errorf("attach ended with %d", code)
	}
	if code, _, stderr := w.Run(t, "kill", "web", list[0].ID); code != cli.ExitFailure || !strings.Contains(stderr, "has ended with exit code 129") {
		t.Errorf("kill of what has ended: exit code %d, %q", code, stderr)
	}
	out, _, ended = w.Begin(t.Context(), strings.NewReader(""), "exec", "web", "--", "sh", "-c", "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.02; done")
	clitest.Await(t, out, "ready\n")
	if code, _, stderr := w.Run(t, "kill", "web", "-s", "usr1"); code != 0 || stderr != "" {
		t.Errorf("kill -s: exit code %d, %q", code, stderr)
	}
	if code := <-ended; code != 4 || out.String() != "ready\ngot\n" {
		t.Errorf("the command ended with %d, %q", code, out)
	}
}

func TestCommandsOfAPodAreNotListed(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusUpgradeRequired)
		fmt.Fprint(rw, `{"kind":"Status","code":426,"message":"WebSocket only"}`)
	})
	for command, want := range map[string]int{"exec": cli.ExitOurs, "kill": cli.ExitFailure, "attach": cli.ExitOurs} {
		args := []string{command, "web"}
		if command == "exec" {
			args = append(args, "--list")
		}
		if code, _, stderr := w.Run(t, args...); code != want || !strings.HasPrefix(stderr, "sandbar: only commands in a sandbox with a runner of this version can be listed, joined and ended") {
			t.Errorf("%s: exit code %d, %q", command, code, stderr)
		}
	}
}

// As in a pipe to head: the program ends as a local one does, and the command does not run on.
func TestACommandIsEndedWhenNobodyTakesItsOutput(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	cmd := w.Program(t, "exec", "web", "--", "sh", "-c", "while :; do echo line; sleep 0.01; done")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "line\n" {
		t.Fatal(line, err)
	}
	_ = stdout.Close()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitBrokenPipe {
		t.Errorf("exit code %d, %s", code, cmd.ProcessState)
	}
	if list := w.commands(t); len(list) != 1 || list[0].ExitCode == nil {
		t.Errorf("there are %+v", list)
	}
}

func TestAnInterruptIsTheCommandsAndIs130(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	for name, c := range map[string]struct {
		script string
		code   int
	}{
		"one that ends by it":   {"echo ready; exec sleep 1000", cli.ExitInterrupted},
		"one that minds it":     {"trap 'exit 9' INT; echo ready; while :; do sleep 0.02; done", 9},
		"one that ends well by": {"trap 'exit 0' INT; echo ready; while :; do sleep 0.02; done", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := w.Program(t, "exec", "web", "--", "sh", "-c", c.script)
			out := &clitest.LockedBuffer{}
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			clitest.Await(t, out, "ready\n")
			_ = cmd.Process.Signal(syscall.SIGINT)
			stuck := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer stuck.Stop()
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
		})
	}
}

// A program that gives up does not leave its command running.
func TestACommandIsEndedWithTheContextOfItsCaller(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	s := target{&cli.Target{Kubeconfig: w.Kubeconfig, TrustFile: w.Trust, Resource: client.SandboxRunners.GroupResource().String()}}
	i, err := s.Instance(t.Context(), "web", "exec")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &clitest.LockedBuffer{}
	ended := make(chan error, 1)
	go func() {
		_, err := i.Exec(ctx, client.ExecOptions{Command: []string{"sh", "-c", "echo ready; exec sleep 1000"}, Stdout: out})
		ended <- err
	}()
	clitest.Await(t, out, "ready\n")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	for late := time.Now().Add(20 * time.Second); w.commands(t)[0].ExitCode == nil; {
		if time.Now().After(late) {
			t.Fatal("the command runs on")
		}
	}
}
