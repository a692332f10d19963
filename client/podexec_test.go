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

	"github.com/coder/websocket"
)

// podExec is an instance whose exec is a pod's own; serve gets the connection once it is asked right.
func podExec(t *testing.T, serve func(context.Context, *websocket.Conn)) *Instance {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Protocol") != podProtocol {
			w.Header().Set("Sec-Websocket-Protocol", podProtocol)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{podProtocol}})
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
	i := podExec(t, func(ctx context.Context, conn *websocket.Conn) {
		_, p, _ := conn.Read(ctx)
		_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{channelStdout}, p...))
		_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{channelStatus}, `{"status":"Success"}`...))
		_ = conn.Close(websocket.StatusNormalClosure, "")
	})
	var out bytes.Buffer
	code, err := i.Exec(t.Context(), ExecOptions{Command: []string{"sh"}, TTY: true, Size: TerminalSize{Width: 132, Height: 43}, Stdout: &out})
	if want := "\x04" + `{"Width":132,"Height":43}`; code != 0 || err != nil || out.String() != want {
		t.Errorf("got %d, %v, %q; want %q", code, err, out.String(), want)
	}
}

func TestASignalLeavesAPodsCommand(t *testing.T) {
	signals := make(chan string, 1)
	i := podExec(t, func(ctx context.Context, conn *websocket.Conn) {
		signals <- "SIGINT"
		_, _, _ = conn.Read(ctx) // until the client has gone
	})
	_, err := i.Exec(t.Context(), ExecOptions{Command: []string{"sleep", "600"}, Signals: signals})
	var left *InterruptedError
	if !errors.As(err, &left) || left.Signal != "SIGINT" || !strings.Contains(err.Error(), "SIGINT") {
		t.Errorf("got %v", err)
	}
}
