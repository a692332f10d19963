// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// podExec is an instance whose exec is a pod's own; serve gets the connection once it is asked right.
func podExec(t *testing.T, serve func(context.Context, *wsconn.Conn)) *Instance {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Protocol") != execwire.PodProtocol {
			w.Header().Set("Sec-Websocket-Protocol", execwire.PodProtocol)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, err := wsconn.Accept(w, r, 1<<20, execwire.PodProtocol)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		serve(r.Context(), conn)
	}))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Instance{base: base, plane: &plane{http: server.Client()}}
}

func TestATerminalInAPodHasASizeFromTheBeginning(t *testing.T) {
	i := podExec(t, func(ctx context.Context, conn *wsconn.Conn) {
		p, _ := conn.Read(ctx)
		_ = conn.Write(ctx, append([]byte{execwire.ChannelStdout}, p...))
		_ = conn.Write(ctx, append([]byte{execwire.ChannelStatus}, `{"status":"Success"}`...))
		_ = conn.Close(websocket.CloseNormalClosure, "")
	})
	var out bytes.Buffer
	code, err := i.Exec(t.Context(), ExecOptions{Command: []string{"sh"}, TTY: true, Size: TerminalSize{Width: 132, Height: 43}, Stdout: &out})
	if want := "\x04" + `{"Width":132,"Height":43}`; code != 0 || err != nil || out.String() != want {
		t.Errorf("got %d, %v, %q; want %q", code, err, out.String(), want)
	}
}

func TestASignalLeavesAPodsCommand(t *testing.T) {
	signals := make(chan string, 1)
	i := podExec(t, func(ctx context.Context, conn *wsconn.Conn) {
		signals <- "SIGINT"
		_, _ = conn.Read(ctx) // until the client has gone
	})
	_, err := i.Exec(t.Context(), ExecOptions{Command: []string{"sleep", "600"}, Signals: signals})
	var left *InterruptedError
	if !errors.As(err, &left) || left.Signal != "SIGINT" || !strings.Contains(err.Error(), "SIGINT") {
		t.Errorf("got %v", err)
	}
}

func TestARefusedHandshakeIsACallErrorOfAnySize(t *testing.T) {
	long := strings.Repeat("x", 5000)
	i := runnerOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"kind":"Status","code":409,"reason":"Conflict","message":"` + long + `","details":{"causes":[{"reason":"Expired"}]}}`))
	})
	_, exec := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}})
	_, end := i.EndCommand(t.Context(), "c-1", "")
	_, _, forward := (&tunnel{ctx: t.Context(), Instance: i}).Dial("portforward.k8s.io")
	for name, err := range map[string]error{"exec": exec, "end": end, "forward": forward} {
		var answer *CallError
		if !errors.As(err, &answer) || answer.Code != http.StatusConflict || answer.Message != long || answer.Cause != "Expired" || answer.RetryAfter != 7*time.Second {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestAMessageAboveTheLimitEndsTheCommandsConnection(t *testing.T) {
	i := podExec(t, func(ctx context.Context, conn *wsconn.Conn) {
		_ = conn.Write(ctx, []byte{execwire.ChannelStdout}, make([]byte, maxExecOutput))
		_, _ = conn.Read(ctx)
	})
	var out bytes.Buffer
	if _, err := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}, Stdout: &out}); !errors.Is(err, websocket.ErrReadLimit) || out.Len() > 0 {
		t.Errorf("got %v and %d bytes", err, out.Len())
	}
}

func TestACommandThatIsTooLongForAPodSaysTheWayOut(t *testing.T) {
	i := runnerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Protocol") != execwire.PodProtocol {
			w.Header().Set("Sec-Websocket-Protocol", execwire.PodProtocol)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	})
	_, err := i.Exec(t.Context(), ExecOptions{Command: []string{"sh", "-c", strings.Repeat("x", 20<<10)}})
	var long *TooLongError
	if !errors.As(err, &long) || !strings.Contains(err.Error(), "copy it into a file of the pod") {
		t.Errorf("a long command: %v", err)
	}
	if _, err := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}}); err == nil || errors.As(err, &long) {
		t.Errorf("a short one: %v", err)
	}
}

// Closing the terminal of a pod would lose the output, and within a line one end hands over the line alone.
func TestTheEndOfTheInputEndsATerminalsInputAnywhereInALine(t *testing.T) {
	for name, c := range map[string]struct {
		input, want string
		tty         bool
	}{
		"at the beginning of a line": {"abc\n", "\x00abc\n|\x00\x04|", true},
		"within a line":              {"abc", "\x00abc|\x00\x04\x04|", true},
		"without input":              {"", "\x00\x04|", true},
		"without a terminal":         {"abc", "\x00abc|\xff\x00|", false},
	} {
		t.Run(name, func(t *testing.T) {
			i := podExec(t, func(ctx context.Context, conn *wsconn.Conn) {
				var got []byte
				for strings.Count(c.want, "|") > strings.Count(string(got), "|") {
					p, err := conn.Read(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					got = append(append(got, p...), '|')
				}
				_ = conn.Write(ctx, append([]byte{execwire.ChannelStdout}, got...))
				_ = conn.Write(ctx, append([]byte{execwire.ChannelStatus}, `{"status":"Success"}`...))
				_ = conn.Close(websocket.CloseNormalClosure, "")
			})
			var out bytes.Buffer
			opts := ExecOptions{Command: []string{"head", "-1"}, TTY: c.tty, Stdin: strings.NewReader(c.input), Stdout: &out}
			if code, err := i.Exec(t.Context(), opts); code != 0 || err != nil || out.String() != c.want {
				t.Errorf("got %d, %v; the pod got %q, want %q", code, err, out.String(), c.want)
			}
		})
	}
}
