// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

func (s *sandbox) listed() []execwire.Command {
	s.t.Helper()
	return callJSON[execwire.List](s, "GET", "/exec", "", 200).Commands
}

func TestCommandsAreListed(t *testing.T) {
	s := startSandbox(t, "", nil)
	if list := s.listed(); len(list) != 0 {
		t.Errorf("before the first there are %v", list)
	}
	first := s.startExec(shell1("echo ready; read x; exit 3", "stdin"))
	first.read(func() bool { return first.out == "ready\n" })
	long := strings.Repeat("ä", maxListedCommand)
	second := s.startExec(shell1("exit 7 # "+long, "tty"))
	second.read(second.ended)
	list := s.listed()
	if len(list) != 2 || list[0].ID != first.id || list[1].ID != second.id {
		t.Fatalf("there are %v", list)
	}
	if diff := cmp.Diff([]string{"sh", "-c", "echo ready; read x; exit 3"}, list[0].Args); diff != "" || list[0].ExitCode != nil || !list[0].Attached || list[0].TTY {
		t.Errorf("the one that runs: %+v %s", list[0], diff)
	}
	if cut := list[1].Args; list[1].ExitCode == nil || *list[1].ExitCode != 7 || !list[1].TTY || len(cut) != 3 ||
		len(strings.Join(cut, "")) > maxListedCommand+3 || !strings.HasSuffix(cut[2], "ä…") {
		t.Errorf("the one that has ended: %+v", list[1])
	}
	_ = first.conn.CloseNow()
	for late := time.Now().Add(lateAfter); s.listed()[0].Attached; {
		if time.Now().After(late) {
			t.Fatal("a client that has gone is attached")
		}
	}
}

func TestAnObserverEndsACommandAndTakesItFromNobody(t *testing.T) {
	s := startSandbox(t, "", nil)
	for name, c := range map[string]struct {
		script, message string
		channel         byte
		code            string
	}{
		"by a signal":               {`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.02; done`, `{"signal":"SIGUSR1"}`, execwire.ChannelSignal, "5"},
		"by its end":                {`echo ready; exec sleep 1000`, "\x01", execwire.ChannelClose, "129"},
		"though it does not listen": {`trap '' HUP TERM; echo ready; while :; do sleep 0.02; done`, "\x01", execwire.ChannelClose, "137"},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.startExec(shell1(c.script))
			client.read(func() bool { return client.out == "ready\n" })
			observer := s.startExec(url.Values{"id": {client.id}, "observe": {"true"}})
			observer.read(func() bool { return observer.id == client.id })
			observer.send(c.channel, c.message)
			observer.read(observer.ended)
			client.read(client.ended)
			if observer.code() != c.code || client.code() != c.code || observer.out != "" {
				t.Errorf("the observer got %q, %q, the client %q; want %q", observer.code(), observer.out, client.code(), c.code)
			}
		})
	}
	t.Run("and has no input", func(t *testing.T) {
		client := s.startExec(shell1("echo ready; cat", "stdin"))
		client.read(func() bool { return client.out == "ready\n" })
		observer := s.startExec(url.Values{"id": {client.id}, "observe": {"true"}})
		observer.send(execwire.ChannelStdin, "x")
		var err error
		for err == nil {
			err = observer.next()
		}
		if wsconn.CloseCode(err) != websocket.ClosePolicyViolation {
			t.Errorf("input of an observer: %v", err)
		}
	})
	for query, want := range map[string]int{"observe=true": 400, "observe=true&id=none": 404, "observe=x&id=none": 400} {
		if _, res, err := s.dialExec(execwire.Protocol, must(url.ParseQuery(query))); err == nil || res.StatusCode != want {
			t.Errorf("%s: %v, want %d", query, err, want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// One whose place was taken is told so: without that the two would take it from each other for ever.
func TestAClientThatIsReplacedIsTold(t *testing.T) {
	s := startSandbox(t, "", nil)
	first := s.startExec(shell1("echo ready; read x; echo $x", "stdin"))
	first.read(func() bool { return first.out == "ready\n" })
	second := s.startExec(url.Values{"id": {first.id}, "offset": {"0"}})
	if err := first.next(); wsconn.CloseCode(err) != execwire.CloseReplaced {
		t.Errorf("the first client's connection ended with %v", err)
	}
	second.send(execwire.ChannelStdin, "hello\n")
	second.read(second.ended)
	if second.out != "ready\nhello\n" {
		t.Errorf("the second client got %q", second.out)
	}
}

// The protocol of Kubernetes has no way to come back to a command, or to list it.
func TestACommandEndsWithAClientThatCannotComeBack(t *testing.T) {
	s := startSandbox(t, "", nil)
	c, _, err := s.dialExec(execwire.PodProtocol, shell1("echo ready; exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	c.read(func() bool { return c.out == "ready\n" })
	_ = c.conn.CloseNow()
	for late := time.Now().Add(lateAfter); ; {
		if list := s.listed(); len(list) == 1 && list[0].ExitCode != nil {
			return
		}
		if time.Now().After(late) {
			t.Fatal("it runs on")
		}
	}
}

func TestACommandThatCannotBeStartedHasTheCodeOfShells(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"text","content":"hello"},{"path":"sub/x","content":""},
		{"path":"lost","content":"#!/no/such/interpreter\n","executable":true}]}`, 200)
	for query, want := range map[string]int{
		"command=no-such-program": 127, "command=./none": 127, "command=./lost": 127, "command=./text": 126, "command=./sub": 126, "command=true&dir=none": 125,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/exec?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{TokenHeader: testToken, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			req.Header.Set(name, value)
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		var answer struct {
			Code     string
			ExitCode int
		}
		if err := json.Unmarshal(body, &answer); err != nil || answer.Code != "CommandNotStarted" || answer.ExitCode != want {
			t.Errorf("%s: %s, want the exit code %d", query, body, want)
		}
	}
}
