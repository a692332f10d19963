// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
	"github.com/sandbar-dev/sandbar/runner/execs"
)

// execCommandWait is how long the messages of a command may take to arrive.
const execCommandWait = 30 * time.Second

// errNoCommand means that the client is gone, or took too long: there is nobody to tell.
var errNoCommand = errors.New("the client sent no command")

// startByMessage starts the command that the first messages carry. An address has no room for a script of
// 20 KiB; messages have room for all that the kernel takes.
func (s *server) startByMessage(ctx context.Context, conn *wsconn.Conn) (*execs.Session, error) {
	text, err := readStart(ctx, conn)
	if err != nil {
		return nil, err
	}
	var start execwire.Start
	if !utf8.Valid(text) { // package json would put another character in its place
		return nil, malformed("a command in messages must be UTF-8; one that is not can be in the address")
	}
	if err := json.Unmarshal(text, &start); err != nil {
		return nil, malformed("a command in messages must be {\"command\": [program, arguments…]}")
	}
	command, err := s.execCommand(start)
	if err != nil {
		return nil, err
	}
	return s.execs.Start(command)
}

// readStart reads the parts of a command up to the empty one.
func readStart(ctx context.Context, conn *wsconn.Conn) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, execCommandWait)
	defer cancel()
	var text []byte
	for {
		p, err := conn.Read(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w within %s: %w", errNoCommand, execCommandWait, err)
		case len(p) == 0 || p[0] != execwire.ChannelCommand:
			return nil, malformed("with message, channel %d comes first", execwire.ChannelCommand)
		case len(p) == 1:
			return text, nil
		case len(text)+len(p)-1 > execwire.MaxCommandBytes:
			return nil, malformed("the command has more than %d bytes: put what is long into a file or the command's input", execwire.MaxCommandBytes)
		}
		text = append(text, p[1:]...)
	}
}

// refuse says why a command that came in messages was not started.
func (e *execConn) refuse(ctx context.Context, err error) {
	if errors.Is(err, errNoCommand) {
		return
	}
	known := classify(err)
	status, err := json.Marshal(execwire.NewRefusal(known.Code, known.Message, known.ExitCode))
	if err == nil && e.send(ctx, execwire.ChannelStatus, status) == nil {
		_ = e.conn.Close(websocket.CloseNormalClosure, "")
	}
}
