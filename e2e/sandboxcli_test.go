// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// TestCommandLineOnAPodWithoutARunner: sandbar exec, logs and port-forward on a tenant's own pod, whose commands
// go through the kubelet and the container runtime.
func TestCommandLineOnAPodWithoutARunner(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	box := tn.box("box", `
template:
  podTemplate:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: `+toolchain+`
        command: [sh, -c, 'echo boot in $HOSTNAME; until [ -e /tmp/end ]; do sleep 0.1; done; exit 3']
`)
	box.waitReady()
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	b := &boxTerminal{terminal: s, box: box}
	t.Run("piped input, with -t", b.pipedInput)
	t.Run("a command is the same as without the data plane", b.sameCommand)
	t.Run("a killed caller leaves nothing in the pod", b.killedCaller)
	t.Run("a terminal that is gone leaves nothing in the pod", b.goneTerminal)
	t.Run("port-forward outlives a refused connection", b.refusedConnection)
	t.Run("logs -f outlives the container and the pod", b.followedLog)
}

// boxTerminal is the command line, and the Sandbox that it is used on.
type boxTerminal struct {
	*terminal
	box *instance
}

func (b *boxTerminal) args(verb string, more ...string) []string {
	return append([]string{"--resource", "sandboxes.sandbar.dev", verb, "box"}, more...)
}

func (b *boxTerminal) pipedInput(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), b.program, b.args("exec", "-it", "--", "head", "-1")...)
	var notes bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = b.env, strings.NewReader("abc\n"), &notes
	out, err := cmd.Output()
	if err != nil || string(out) != "abc\n" || !strings.Contains(notes.String(), "-t does not count") {
		t.Errorf("got %q (%v), and it says %q", out, err, notes.String())
	}
}

// sameCommand compares with the API server's own exec of the pod.
func (b *boxTerminal) sameCommand(t *testing.T) {
	var direct bytes.Buffer
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	pod := b.box.pod()
	environment := []string{"cat", "/proc/self/environ"}
	u := kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "main", Command: environment, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(world.Stack.Runtime(), http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &direct, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	sorted := func(environ string) []string { v := strings.Split(environ, "\x00"); slices.Sort(v); return v }
	if got := b.must(b.args("exec", append([]string{"--"}, environment...)...)...); !slices.Equal(sorted(got), sorted(direct.String())) {
		t.Errorf("a command has the environment\n%q, and without the data plane\n%q", got, direct.String())
	}
	if got := b.must(b.args("exec", "--", "printf", "<%s>", "", "a  b", "$HOME", "*", "'")...); got != "<><a  b><$HOME><*><'>" {
		t.Errorf("it has the arguments %s", got)
	}
	for program, want := range map[string]int{"nosuch-program": 127, "/tmp": 126} {
		if code, out, notes := b.run(b.args("exec", "--", program)...); code != want || out != "" {
			t.Errorf("%s ends with %d, %q and %q; want %d", program, code, out, notes, want)
		}
	}
}

// processes are the commands that run in the pod.
func (b *boxTerminal) processes() string {
	return b.must(b.args("exec", "--", "sh", "-c", `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`)...)
}

func (b *boxTerminal) killedCaller(t *testing.T) {
	out := &screen{}
	cmd := exec.CommandContext(t.Context(), b.program, b.args("exec", "--", "sh", "-c",
		`nohup sleep 6001 >/dev/null 2>&1 & setsid sleep 6002 & sleep 6003 & echo begun; sleep 6004; echo not this`)...)
	cmd.Env, cmd.Stdout = b.env, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, out, "begun\n")
	if got := b.processes(); !strings.Contains(got, "sleep 6003 ") || !strings.Contains(got, "sleep 6004 ") {
		t.Errorf("before, there run %s", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	began := time.Now()
	eventually(t, "the command has gone", func() error {
		if got := b.processes(); strings.Contains(got, "sleep 6003 ") || strings.Contains(got, "sleep 6004 ") {
			return fmt.Errorf("there run %s", got)
		}
		return nil
	})
	t.Logf("gone after %v", time.Since(began).Round(10*time.Millisecond))
	if got := b.processes(); !strings.Contains(got, "sleep 6001 ") || !strings.Contains(got, "sleep 6002 ") {
		t.Errorf("what was to outlive the session is not among %s", got)
	}
}

// goneTerminal has an interactive shell, with a job, lose its terminal as a closed laptop does.
func (b *boxTerminal) goneTerminal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	input, keys := io.Pipe()
	defer keys.Close()
	out, ended := &screen{}, make(chan error, 1)
	go func() {
		ended <- b.box.remote(ctx, t, b.box.tn.token, "exec", remotecommand.StreamOptions{Stdin: input, Stdout: out, Tty: true}, "sh", "-i")
	}()
	if _, err := io.WriteString(keys, "sleep 6005 & echo begun $((6*7))\n"); err != nil {
		t.Fatal(err)
	}
	await(t, out, "begun 42")
	if got := b.processes(); !strings.Contains(got, "sh -i ") || !strings.Contains(got, "sleep 6005 ") {
		t.Errorf("before, there run %s", got)
	}
	cancel()
	<-ended
	eventually(t, "the shell has gone", func() error {
		if got := b.processes(); strings.Contains(got, "sh -i ") || strings.Contains(got, "sleep 6005 ") {
			return fmt.Errorf("there run %s", got)
		}
		return nil
	})
}

func (b *boxTerminal) refusedConnection(t *testing.T) {
	out, notes, stop := b.begin(b.args("port-forward", "0:4000")...)
	await(t, out, " to port 4000\n")
	address := strings.Fields(out.String())[0]
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience()))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a port at which nobody listens gave %d bytes, %v", n, err)
	}
	conn.Close()
	await(t, notes, "4000")
	_, _, end := b.begin(b.args("exec", "--", "node", "-e", `require("http").createServer((q, s) => s.end("late")).listen(4000, "127.0.0.1")`)...)
	defer end()
	eventually(t, "the listener that came later is reached", func() error {
		res, err := http.Get("http://" + address)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "late" {
			return fmt.Errorf("it says %q: %w", body, err)
		}
		return nil
	})
	if code := stop(); code != 130 {
		t.Errorf("an interrupt ends it with %d; it said %s", code, notes)
	}
}

func (b *boxTerminal) followedLog(t *testing.T) {
	out, notes, stop := b.begin(b.args("logs", "-f")...)
	await(t, out, "boot in ")
	b.run(b.args("exec", "--", "touch", "/tmp/end")...) // which may end with the container
	await(t, notes, "the container ended")
	boots := func(n int) {
		t.Helper()
		eventually(t, strconv.Itoa(n)+" containers have written", func() error {
			if got := out.String(); strings.Count(got, "boot in ") != n {
				return fmt.Errorf("there is %q, and %q", got, notes)
			}
			return nil
		})
	}
	boots(2)
	first := len(notes.String())
	pod := b.box.pod()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	if err := kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAfter(t, notes, first, "the container ended")
	boots(3)
	if code := stop(); code != 130 {
		t.Errorf("an interrupt ends it with %d", code)
	}
	t.Logf("it printed\n%sand said\n%s", out, notes)
}
