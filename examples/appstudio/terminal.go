// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/client"
)

// maxInput bounds what a browser types at once.
const maxInput = 64 << 10

// upgrader takes the sockets of this site's own pages: a browser sends the cookie with a socket that another site opens
// to a site of the same host, and CrossOriginProtection lets a GET pass. With no CheckOrigin, the origin must be the host.
var upgrader = websocket.Upgrader{}

// terminal joins a socket of the browser to a shell in the sandbox: what is typed goes in, what is printed comes out. The
// shell ends with the socket.
func terminal(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	defer func() { _ = socket.Close() }()
	socket.SetReadLimit(maxInput)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	input, typed := io.Pipe()
	go func() {
		defer cancel()
		for {
			_, text, err := socket.ReadMessage()
			if err != nil {
				_ = typed.CloseWithError(io.EOF)
				return
			}
			if _, err := typed.Write(text); err != nil {
				return
			}
		}
	}()
	_, err = i.Exec(ctx, client.ExecOptions{
		// The page draws lines and no screen.
		Command: []string{"env", "TERM=dumb", "sh", "-i"},
		TTY:     true, Size: client.TerminalSize{Width: 100, Height: 24},
		Stdin: input, Stdout: printer{socket},
	})
	_ = input.Close()
	reason := "the shell has ended"
	if err != nil {
		reason = err.Error()
	}
	_ = socket.WriteMessage(websocket.TextMessage, []byte("\r\n["+reason+"]\r\n")) // a browser that has gone reads nothing
	return nil
}

// printer sends what a shell prints.
type printer struct{ socket *websocket.Conn }

func (p printer) Write(b []byte) (int, error) {
	if err := p.socket.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
