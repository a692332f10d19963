// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// goldenOf reads a golden file of a package of apis/wire, which the runner is tested against too.
func goldenOf(t *testing.T, format, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "apis", "wire", format, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(text, []byte("\n"))
}

// runnerOf is an instance whose data plane is a handler.
func runnerOf(t *testing.T, handler http.HandlerFunc) *Instance {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Instance{base: base, plane: &plane{http: server.Client()}}
}

// runnerExec is an instance with a runner; serve gets each connection to a command.
func runnerExec(t *testing.T, serve func(context.Context, url.Values, *wsconn.Conn)) *Instance {
	return runnerOf(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := wsconn.Accept(w, r, 1<<20, execwire.Protocol)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		serve(r.Context(), r.URL.Query(), conn)
	})
}

func TestTheClientReadsHowACommandEndedInTheGoldenFiles(t *testing.T) {
	for file, want := range map[string]int{"status-success.json": 0, "status-exit.json": 7, "status-signal.json": 137} {
		i := runnerExec(t, func(ctx context.Context, _ url.Values, conn *wsconn.Conn) {
			_ = write(ctx, conn, execwire.ChannelSession, goldenOf(t, "exec", "session.json"))
			_ = write(ctx, conn, execwire.ChannelStatus, goldenOf(t, "exec", file))
			_, _ = conn.Read(ctx) // until the client has gone
		})
		if code, err := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}}); code != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", file, code, err, want)
		}
	}
}

// The session begins at 12, five bytes come, 4096 are lost: the client comes back at 4113.
func TestTheClientComesBackAsTheGoldenFilesOfASessionSay(t *testing.T) {
	queries := make(chan url.Values, 2)
	i := runnerExec(t, func(ctx context.Context, query url.Values, conn *wsconn.Conn) {
		queries <- query
		if query.Get(execwire.ParamID) != "" {
			_ = write(ctx, conn, execwire.ChannelStatus, goldenOf(t, "exec", "status-success.json"))
			_, _ = conn.Read(ctx)
			return
		}
		_ = write(ctx, conn, execwire.ChannelSession, goldenOf(t, "exec", "session.json"))
		_ = write(ctx, conn, execwire.ChannelStdout, []byte("hello"))
		_ = write(ctx, conn, execwire.ChannelSession, goldenOf(t, "exec", "session-gap.json"))
		_ = conn.Close(websocket.CloseGoingAway, "")
	})
	var lost int64
	code, err := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}, OnState: func(s ExecState) { lost += s.Gap }})
	if code != 0 || err != nil || lost != 4096 {
		t.Fatalf("%d, %v, %d bytes lost", code, err, lost)
	}
	<-queries
	if diff := cmp.Diff(url.Values{"id": {"c-1"}, "offset": {"4113"}}, <-queries); diff != "" {
		t.Errorf("the second query (-want +got):\n%s", diff)
	}
}

func TestTheClientWritesMessagesOfTheGoldenFiles(t *testing.T) {
	sizes, signals := make(chan TerminalSize, 1), make(chan string, 1)
	sizes <- TerminalSize{Width: 132, Height: 43}
	i := runnerExec(t, func(ctx context.Context, _ url.Values, conn *wsconn.Conn) {
		_ = write(ctx, conn, execwire.ChannelSession, goldenOf(t, "exec", "session.json"))
		signals <- "SIGINT"
		got := map[byte]string{}
		for len(got) < 2 {
			p, err := conn.Read(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			got[p[0]] = string(p[1:])
		}
		want := map[byte]string{
			execwire.ChannelResize: string(goldenOf(t, "exec", "size.json")),
			execwire.ChannelSignal: string(goldenOf(t, "exec", "signal.json")),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages (-golden +got):\n%s", diff)
		}
		_ = write(ctx, conn, execwire.ChannelStatus, goldenOf(t, "exec", "status-success.json"))
		_, _ = conn.Read(ctx)
	})
	if _, err := i.Exec(t.Context(), ExecOptions{Command: []string{"x"}, Resize: sizes, Signals: signals}); err != nil {
		t.Error(err)
	}
}

func TestTheClientReadsTheListOfTheGoldenFile(t *testing.T) {
	i := runnerOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(goldenOf(t, "exec", "list.json")) })
	got, err := i.Commands(t.Context())
	code, start := 7, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []Command{
		{ID: "c-1", Args: []string{"sh", "-c", "exit 7"}, Start: start, ExitCode: &code},
		{ID: "c-2", Args: []string{"bash"}, Start: start.Add(time.Minute), TTY: true, Attached: true},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("list (-want +got), %v:\n%s", err, diff)
	}
}
