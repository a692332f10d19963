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

// runs reports whether a process runs; one that has ended need not have been noticed by its parent.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// inTime waits for what processes do, however busy the machine is; a test that passes never waits so long.
func inTime(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// cleanings is how often the data plane has looked for what a command has left.
func cleanings(asked [][]string) (n int) {
	for _, command := range asked {
		if len(command) > 3 && command[3] == "sandbar" {
			n++
		}
	}
	return n
}

// withArgument finds the processes of sleep that have an argument.
func withArgument(t *testing.T, argument string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, _ := os.ReadFile(file); string(line) == "sleep\x00"+argument+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// leftCommands adds up what the metric counts with these results.
func (w *world) leftCommands(results ...string) (n int) {
	res, err := w.client.Get(w.metrics + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for _, result := range results {
		_, rest, _ := strings.Cut(string(text), "\nsandbar_dataplane_left_commands_total{result=\""+result+"\"} ")
		value, _, _ := strings.Cut(rest, "\n")
		count, err := strconv.Atoi(value)
		if err != nil {
			w.t.Fatalf("the metric has %q for %s", value, result)
		}
		n += count
	}
	return n
}

// looked is what a look for processes comes to where there is a shell. On a machine that is too busy the data plane
// does not wait for its end; it comes nevertheless.
var looked = []string{"ended", "failed"}

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
			inTime(t, "the command has gone", func() bool { return !runs(pid) })
			if name == "a replica that drains" { // it has waited for that
				return
			}
			inTime(t, "it is counted", func() bool { return w.leftCommands(looked...) == 1 })
			if n := cleanings(pods.Asked()); n != 1 {
				t.Errorf("the data plane looked %d times", n)
			}
		})
	}
}

// A caller can go before the container runtime has begun its command. The data plane's look comes before it, too.
func TestACommandThatBeginsAfterItsCallerHasGoneIsEnded(t *testing.T) {
	const argument = "600.000013"
	looks := make(chan struct{})
	w, pods := execWorld(t, func(e *fixture.Exec) {
		e.Before = func(command []string) {
			if command[0] == "env" {
				<-looks
				return
			}
			close(looks) // the script starts when the command has begun, so that the test needs no certain speed
			for deadline := time.Now().Add(3 * time.Minute); len(withArgument(t, argument)) == 0 && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	w.run(adminToken, "sleep", argument).Close()
	inTime(t, "it is counted", func() bool { return w.leftCommands(looked...) == 1 })
	inTime(t, "the command has gone", func() bool { return len(withArgument(t, argument)) == 0 })
	for _, command := range pods.Asked() {
		if command[0] == "sh" && command[5] != "20" {
			t.Errorf("it looks for %s tenths of a second", command[5])
		}
	}
}

// Processes that have left the command's session, or ignore a hang-up, are the command's.
func TestNothingOfACommandOutlivesItsCaller(t *testing.T) {
	w, _ := execWorld(t)
	conn := w.run(adminToken, "sh", "-c", "trap '' HUP; setsid sleep 600 & echo $!; wait")
	pid := pidIn(t, conn)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	conn.Close()
	inTime(t, "it has gone", func() bool { return !runs(pid) })
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
	inTime(t, "the data plane knows", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0").UID == pod.UID
	})
	conn.Close()
	inTime(t, "it is counted", func() bool { return w.leftCommands("gone") == 1 })
	if n := len(pods.Asked()); n != 1 || !runs(pid) {
		t.Errorf("the pod was asked for %d commands; the process runs: %v", n, runs(pid))
	}
}

// An image without env runs its commands as they are; it is asked for env once.
func TestAContainerWithoutEnvRunsItsCommands(t *testing.T) {
	w, pods := execWorld(t, func(e *fixture.Exec) { e.Lose("env") })
	for range 2 {
		conn := w.run(adminToken, "cat")
		for _, m := range []string{"\x00in", "\xff\x00"} {
			if err := conn.WriteMessage(websocket.BinaryMessage, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		if got := hear(t, conn, 1); got != "in" {
			t.Errorf("it says %q", got)
		}
		_ = hear(t, conn, 3)
		conn.Close()
	}
	if asked := pods.Asked(); len(asked) != 3 || asked[0][0] != "env" || asked[1][0] != "cat" || asked[2][0] != "cat" {
		t.Errorf("the pod was asked for %q", asked)
	}
}

// What cannot be started is told in the container runtime's words, of the command that was asked for.
func TestACommandThatCannotBeStartedIsToldAsTheRuntimeDoes(t *testing.T) {
	w, pods := execWorld(t)
	for command, says := range map[string]string{"nosuch-program": "executable file not found in $PATH", "/nosuch": "no such file or directory", "/": "permission denied"} {
		conn := w.run(adminToken, command)
		var status metav1.Status
		if err := json.Unmarshal([]byte(hear(t, conn, 3)), &status); err != nil || status.Reason != metav1.StatusReasonInternalError ||
			status.Message != `exec: "`+command+`": `+says {
			t.Errorf("of %s it says %+v (%v)", command, status, err)
		}
		conn.Close()
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if asked := pods.Asked(); len(asked) != 3 {
		t.Errorf("the pod was asked for %q", asked)
	}
}

// A program that env would take for a variable runs without the mark.
func TestAProgramWithAnEqualsSignRuns(t *testing.T) {
	w, pods := execWorld(t)
	program := filepath.Join(t.TempDir(), "a=b")
	if err := os.Symlink("/bin/echo", program); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, w.run(adminToken, program, "hello"), 1); got != "hello\n" {
		t.Errorf("it says %q", got)
	}
	if asked := pods.Asked(); len(asked) != 1 || asked[0][0] != program {
		t.Errorf("the pod was asked for %q", asked)
	}
}

// What the data plane could not end is counted, and the log names the pod.
func TestWhatCannotBeEndedIsTold(t *testing.T) {
	w, pods := execWorld(t)
	conn := w.run(adminToken, "sh", "-c", "echo $$; exec sleep 600")
	pid := pidIn(t, conn)
	pods.Lose("sh")
	conn.Close()
	inTime(t, "it is counted", func() bool { return w.leftCommands("no_shell") == 1 })
	inTime(t, "it is logged", func() bool {
		return strings.Contains(w.logs.String(), "processes may be left") && strings.Contains(w.logs.String(), `"pod":"pod-0"`)
	})
	if !runs(pid) {
		t.Error("it has gone")
	}
}
