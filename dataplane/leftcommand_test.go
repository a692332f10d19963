// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// execWorld is a world whose pods run commands on this machine.
func execWorld(t *testing.T, changes ...func(*fixture.Exec)) (*world, *fixture.Exec) {
	t.Helper()
	pods := fixture.NewExec(t)
	for _, change := range changes {
		change(pods)
	}
	return newWorld(t, recorder(), append([]func(*setup){podVerbs}, func(s *setup) { s.apiServer = pods })...), pods
}

// run begins a command in the demo's pod.
func (w *world) run(token string, command ...string) *websocket.Conn {
	query := url.Values{"command": command, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}}
	conn, _ := w.websocket(demo+"exec?"+query.Encode(), http.Header{"Authorization": {"Bearer " + token}}, "v5.channel.k8s.io")
	return conn
}

// hear reads what a command prints until something that is not empty came on a channel.
func hear(t *testing.T, conn *websocket.Conn, channel byte) string {
	t.Helper()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("the connection ended: %v", err)
		}
		if len(data) > 1 && data[0] == channel {
			return string(data[1:])
		}
	}
}

// pidIn reads the number that a command prints.
func pidIn(t *testing.T, conn *websocket.Conn) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(hear(t, conn, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

// withArgument finds the processes that have an argument.
func withArgument(t *testing.T, argument string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, _ := os.ReadFile(file); slices.Contains(strings.Split(string(line), "\x00"), argument) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// leftCommands reads the metric.
func (w *world) leftCommands(result string) string {
	res, err := w.client.Get(w.metrics + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	_, rest, _ := strings.Cut(string(text), "\nsandbar_dataplane_left_commands_total{result=\""+result+"\"} ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// However a caller goes, its command goes too, and what that waits for.
func TestTheCommandOfACallerThatHasGoneIsEnded(t *testing.T) {
	for name, leave := range map[string]func(*world, *websocket.Conn){
		"a killed client": func(_ *world, conn *websocket.Conn) { conn.Close() },
		"a client that says so": func(_ *world, conn *websocket.Conn) {
			_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			conn.Close()
		},
		"a withdrawn right": func(w *world, _ *websocket.Conn) {
			w.kcp.grant("token-of-somebody", "get sandboxrunners")
			w.putOffLooks()
			w.server.handler.live.recheck("cluster1", demoID.UID, time.Now())
		},
		"a replica that drains": func(w *world, _ *websocket.Conn) {
			if err := w.stop(); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pods := execWorld(t)
			w.watched()
			w.kcp.grant("token-of-somebody", "get sandboxrunners", "create sandboxrunners/exec")
			conn := w.run("token-of-somebody", "sh", "-c", "sleep 600 & echo $!; wait")
			pid := pidIn(t, conn)
			leave(w, conn)
			eventually(t, "the command has gone", func() bool { return !runs(pid) })
			if name == "a replica that drains" { // it has waited for that
				return
			}
			eventually(t, "it is counted", func() bool { return w.leftCommands("ended") == "1" })
			if n := len(pods.Asked()); n != 2 {
				t.Errorf("the pod was asked for %d commands", n)
			}
		})
	}
}

func TestACommandThatBeginsAfterItsCallerHasGoneIsEnded(t *testing.T) {
	w, pods := execWorld(t)
	const argument = "600.000013"
	w.run(adminToken, "sleep", argument).Close()
	eventually(t, "it is counted", func() bool { return w.leftCommands("ended") == "1" })
	if pids := withArgument(t, argument); len(pids) > 0 || len(pods.Asked()) != 2 {
		t.Errorf("%v run, after %d commands", pids, len(pods.Asked()))
	}
}

func TestWhatOutlivesItsSessionIsLeft(t *testing.T) {
	w, _ := execWorld(t)
	conn := w.run(adminToken, "sh", "-c", "setsid sleep 600 & echo $!; wait")
	pid := pidIn(t, conn)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	eventually(t, "it has left the session", func() bool {
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
		return int(sid) == pid
	})
	conn.Close()
	eventually(t, "the shell is ended", func() bool { return w.leftCommands("ended") == "1" })
	if !runs(pid) {
		t.Error("what has left the session was ended")
	}
}

// Of a command that ends while its caller is there, the pod is asked for nothing more.
func TestACommandThatEndsIsNotLookedFor(t *testing.T) {
	w, pods := execWorld(t)
	conn := w.run(adminToken, "sh", "-c", "cat; echo err >&2; exit 7")
	for _, m := range []string{"\x00in", "\xff\x00"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	var outputs [4]string
	for outputs[3] == "" {
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		outputs[data[0]] += string(data[1:])
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(outputs[3]), &status); err != nil || status.Details.Causes[0].Message != "7" {
		t.Errorf("it ended with %s", outputs[3])
	}
	if outputs[1] != "in" || outputs[2] != "err\n" {
		t.Errorf("it said %q", outputs)
	}
	conn.Close()
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(pods.Asked()); n != 1 {
		t.Errorf("the pod was asked for %d commands", n)
	}
}

// A pod of the same name is another one, and so may be a process of the same number there.
func TestAReplacedPodIsNotTouched(t *testing.T) {
	w, pods := execWorld(t)
	conn := w.run(adminToken, "sh", "-c", "echo $$; exec sleep 600")
	pid := pidIn(t, conn)
	placed := w.runtime.CoreV1().Pods(demoID.Namespace())
	pod, err := placed.Get(t.Context(), "pod-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.UID = "uid-of-another"
	if _, err := placed.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the data plane knows", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0").UID == pod.UID
	})
	conn.Close()
	eventually(t, "it is counted", func() bool { return w.leftCommands("gone") == "1" })
	if n := len(pods.Asked()); n != 1 || !runs(pid) {
		t.Errorf("the pod was asked for %d commands; the process runs: %v", n, runs(pid))
	}
}

// An image without a shell runs its commands as before; it is asked for a shell once.
func TestAContainerWithoutAShellRunsItsCommands(t *testing.T) {
	w, pods := execWorld(t, func(e *fixture.Exec) { e.LoseShell() })
	for range 2 {
		conn := w.run(adminToken, "printf", "<%s>", "a b", "")
		if got := hear(t, conn, 1); got != "<a b><>" {
			t.Errorf("it says %q", got)
		}
		_ = hear(t, conn, 3)
		conn.Close()
	}
	if asked := pods.Asked(); len(asked) != 3 || asked[0][0] != "sh" || asked[1][0] != "printf" || asked[2][0] != "printf" {
		t.Errorf("the pod was asked for %q", asked)
	}
}

// What cannot be started is told in the container runtime's words, of the command that was asked for.
func TestTheRuntimeSaysWhyACommandCannotBeStarted(t *testing.T) {
	w, pods := execWorld(t)
	for range 2 {
		conn := w.run(adminToken, "nosuch-program")
		if got := hear(t, conn, 3); !strings.Contains(got, "nosuch-program") || !strings.Contains(got, "executable file not found") {
			t.Errorf("it says %s", got)
		}
		conn.Close()
	}
	if n := len(pods.Asked()); n != 4 {
		t.Errorf("the pod was asked for %d commands, and may have such a program the next time", n)
	}
}

// A shell that has gone bad meanwhile is tried three times, and told of.
func TestACommandThatCannotBeEndedIsTold(t *testing.T) {
	var pods *fixture.Exec
	w, _ := execWorld(t, func(e *fixture.Exec) { pods = e })
	conn := w.run(adminToken, "sh", "-c", "echo $$; exec sleep 600")
	pid := pidIn(t, conn)
	pods.LoseShell()
	conn.Close()
	eventually(t, "it is counted", func() bool { return w.leftCommands("failed") == "1" })
	if logs := w.logs.String(); !strings.Contains(logs, "may go on in its pod") || len(pods.Asked()) != 4 || !runs(pid) {
		t.Errorf("after %d commands the log has %s", len(pods.Asked()), logs)
	}
}
