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
	return append([]string{verb, "sandbox/box"}, more...)
}

// pipedInput has a line that a terminal would echo, and the end of which it would not pass on.
func (b *boxTerminal) pipedInput(t *testing.T) {
	out, notes, err := b.piped("abc\n", b.args("exec", "-it", "--", "head", "-1")...)
	if err != nil || out != "abc\n" || !strings.Contains(notes, "-t does not count") {
		t.Errorf("got %q (%v), and it says %q", out, err, notes)
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
	sorted := func(environ string) (without []string, mark string) {
		for variable := range strings.SplitSeq(environ, "\x00") {
			if value, is := strings.CutPrefix(variable, "SANDBAR_EXEC="); is {
				mark = value
			} else {
				without = append(without, variable)
			}
		}
		slices.Sort(without)
		return without, mark
	}
	got, mark := sorted(b.must(b.args("exec", append([]string{"--"}, environment...)...)...))
	if want, _ := sorted(direct.String()); !slices.Equal(got, want) || mark == "" {
		t.Errorf("a command has the mark %q and the environment\n%q, and without the data plane\n%q", mark, got, want)
	}
	if got := b.must(b.args("exec", "--", "printf", "<%s>", "", "a  b", "$HOME", "*", "'")...); got != "<><a  b><$HOME><*><'>" {
		t.Errorf("it has the arguments %s", got)
	}
	for program, want := range map[string]struct {
		code int
		says string
	}{"nosuch-program": {127, `exec: "nosuch-program": executable file not found in $PATH`}, "/tmp": {126, `exec: "/tmp": permission denied`}} {
		if code, out, notes := b.run(b.args("exec", "--", program)...); code != want.code || out != "" || !strings.Contains(notes, want.says) {
			t.Errorf("%s ends with %d, %q and %q; want %d, and %s", program, code, out, notes, want.code, want.says)
		}
	}
}

// processes are the commands that run in the pod.
func (b *boxTerminal) processes() string {
	return b.must(b.args("exec", "--", "sh", "-c", `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`)...)
}

// killedCaller has the process of exec killed, of which nobody hears anything.
func (b *boxTerminal) killedCaller(t *testing.T) {
	out := &screen{}
	cmd := exec.CommandContext(t.Context(), b.program, b.args("exec", "--", "sh", "-c",
		`nohup sleep 6001 >/dev/null 2>&1 & setsid sleep 6002 & sleep 6003 & env -u SANDBAR_EXEC sleep 6004 & echo begun; sleep 6005; echo not this`)...)
	cmd.Env, cmd.Stdout = b.env, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, out, "begun\n")
	ends := []string{"sleep 6001 ", "sleep 6002 ", "sleep 6003 ", "sleep 6005 "}
	if got := b.processes(); slices.ContainsFunc(ends, func(one string) bool { return !strings.Contains(got, one) }) {
		t.Errorf("before, there run %s", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the command has gone", func() error {
		if got := b.processes(); slices.ContainsFunc(ends, func(one string) bool { return strings.Contains(got, one) }) {
			return fmt.Errorf("there run %s", got)
		}
		return nil
	})
	if got := b.processes(); !strings.Contains(got, "sleep 6004 ") {
		t.Errorf("what was told to stay is not among %s", got)
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
	if _, err := io.WriteString(keys, "sleep 6006 & echo begun $((6*7))\n"); err != nil {
		t.Fatal(err)
	}
	await(t, out, "begun 42")
	if got := b.processes(); !strings.Contains(got, "sh -i ") || !strings.Contains(got, "sleep 6006 ") {
		t.Errorf("before, there run %s", got)
	}
	cancel()
	<-ended
	eventually(t, "the shell has gone", func() error {
		if got := b.processes(); strings.Contains(got, "sh -i ") || strings.Contains(got, "sleep 6006 ") {
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
