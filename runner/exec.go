// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

const (
	// maxExecs bounds the clients of commands.
	maxExecs = 32
	// execPing is how often a silent client is asked whether it is there, and
	// execPong how long it may take to answer.
	execPing = 20 * time.Second
	execPong = 20 * time.Second
)

// execQuery is what a caller asks of GET /exec.
type execQuery struct {
	command execs.Command
	// id and offset name a command to come back to; id is empty for a new one.
	id     string
	offset int64
	// observe: the caller takes no output, and does not become the command's client.
	observe bool
	// message: the command comes in messages.
	message bool
}

// exec runs a command for a WebSocket client, or attaches it to one that runs.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if r.URL.RawQuery == "" && !upgrade {
		s.listExecs(w)
		return nil
	}
	query, err := s.parseExec(r.URL.Query())
	if err != nil {
		return err
	}
	if !upgrade {
		w.Header().Set("Upgrade", "websocket")
		return &apiError{
			status: http.StatusUpgradeRequired, Code: "UpgradeRequired", Message: "/exec speaks WebSocket only",
		}
	}
	var session *execs.Session
	if !query.message {
		// Before the upgrade, so that a command that cannot be started is an answer of HTTP.
		if session, err = s.execSession(query); err != nil {
			return err
		}
	}
	// The origin is not checked: the token is what lets a caller in, and no page of another origin can send it.
	conn, err := wsconn.Accept(w, r, execwire.MaxInputBytes, execwire.Protocol, execwire.PodProtocol)
	if err != nil {
		if query.id == "" && session != nil {
			session.End()
		}
		return nil // Accept has answered
	}
	if (query.observe || query.message) && conn.Subprotocol() != execwire.Protocol {
		_ = conn.Close(websocket.ClosePolicyViolation, "observe and message are of "+execwire.Protocol+" alone")
		return nil
	}
	defer conn.CloseNow() //nolint:errcheck // closed in order before, or of no use
	// A request's context ends with its connection, and this one was taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	e := execConn{conn: conn, session: session, own: conn.Subprotocol() == execwire.Protocol}
	if query.message {
		if e.session, err = s.startByMessage(ctx, conn); err != nil {
			e.refuse(ctx, err)
			return nil
		}
	}
	go e.ping(ctx, cancel)
	if query.observe {
		e.observe(ctx, cancel)
	} else {
		e.serve(ctx, cancel, query.offset)
	}
	return nil
}

// execSession starts or finds the command.
func (s *server) execSession(query execQuery) (*execs.Session, error) {
	if query.id != "" {
		return s.execs.Find(query.id)
	}
	return s.execs.Start(query.command)
}

// execConn is one WebSocket connection.
type execConn struct {
	conn    *wsconn.Conn
	session *execs.Session
	own     bool // speaks execwire.Protocol
}

// serve attaches the client until the command ends, or the client goes.
func (e *execConn) serve(ctx context.Context, cancel context.CancelFunc, offset int64) {
	client := e.session.Attach(ctx, offset)
	defer client.Detach()
	go func() {
		defer cancel()
		e.receive(ctx, client)
	}()

	if e.own && e.tell(ctx, execwire.Session{ID: e.session.ID(), Offset: client.Offset()}) != nil {
		return
	}
	exit, err := client.Output(func(stream ringlog.Stream, gap int64, p []byte) error {
		switch {
		case gap > 0 && e.own:
			return e.tell(ctx, execwire.Session{ID: e.session.ID(), Gap: gap})
		case gap > 0: // the other protocol cannot resume, and so has no gaps
			return nil
		case stream == ringlog.Stderr:
			return e.send(ctx, execwire.ChannelStderr, p)
		default:
			return e.send(ctx, execwire.ChannelStdout, p)
		}
	})
	switch {
	case err == nil:
		e.end(ctx, exit)
	case client.Replaced():
		_ = e.conn.Close(execwire.CloseReplaced, "another client attached")
	default:
		_ = e.conn.Close(websocket.CloseGoingAway, "the connection is lost, or the runner ends")
		if !e.own {
			e.session.Stop() // this protocol has no way to come back
		}
	}
}

// end says how the command ended, and closes the connection.
func (e *execConn) end(ctx context.Context, exit execs.Exit) {
	status, err := json.Marshal(execwire.NewStatus(exit.Code, exit.Signal))
	if err == nil && e.send(ctx, execwire.ChannelStatus, status) == nil {
		_ = e.conn.Close(websocket.CloseNormalClosure, "")
	}
}

func (e *execConn) tell(ctx context.Context, m execwire.Session) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.send(ctx, execwire.ChannelSession, text)
}

func (e *execConn) send(ctx context.Context, channel byte, p []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return e.conn.Write(ctx, []byte{channel}, p)
}

// receive hands on what the client sends. What makes no sense ends the connection,
// and not the command.
func (e *execConn) receive(ctx context.Context, client *execs.Client) {
	for {
		p, err := e.conn.Read(ctx)
		if err != nil {
			return
		}
		if len(p) == 0 {
			continue
		}
		if err := e.accept(client, p[0], p[1:]); err != nil {
			_ = e.conn.Close(websocket.ClosePolicyViolation, syncwire.Shorten(err.Error()))
			return
		}
	}
}

// accept takes one message. client is nil for an observer, who has no input and no terminal.
func (e *execConn) accept(client *execs.Client, channel byte, p []byte) error {
	switch {
	case client == nil && channel != execwire.ChannelSignal && channel != execwire.ChannelClose:
		return malformed("channel %d is not an observer's", channel)
	case channel == execwire.ChannelStdin:
		return client.Input(p)
	case channel == execwire.ChannelResize:
		size, err := parseSize(p)
		if err == nil {
			e.session.Resize(size)
		}
		return err
	case channel == execwire.ChannelClose:
		switch {
		case len(p) == 1 && p[0] == execwire.ChannelStdin && client != nil:
			return client.CloseInput()
		case len(p) == 1 && p[0] == execwire.ChannelStdout && e.own:
			e.session.Stop()
		}
		return nil
	case channel == execwire.ChannelSignal && e.own:
		sig, err := parseSignal(p)
		if err == nil {
			e.session.Signal(sig)
		}
		return err
	default:
		return malformed("channel %d is not the client's", channel)
	}
}

// ping notices a client that went without a word: a network that is gone says
// nothing, and the client's next connection would find its command taken.
func (e *execConn) ping(ctx context.Context, cancel context.CancelFunc) {
	tick := time.NewTicker(execPing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wait, done := context.WithTimeout(ctx, execPong)
		err := e.conn.Ping(wait)
		done()
		if err != nil {
			cancel()
			return
		}
	}
}

// parseSize reads a message of execwire.ChannelResize.
func parseSize(p []byte) (execs.Size, error) {
	var size execwire.Size
	if err := json.Unmarshal(p, &size); err != nil {
		return execs.Size{}, malformed("a size must be {\"Width\": columns, \"Height\": rows}")
	}
	return execs.Size{Rows: size.Height, Columns: size.Width}, nil
}

// parseSignal reads a message of execwire.ChannelSignal.
func parseSignal(p []byte) (unix.Signal, error) {
	var message execwire.Signal
	if err := json.Unmarshal(p, &message); err != nil {
		return 0, malformed("a signal must be {\"signal\": \"SIGINT\"}")
	}
	sig := unix.SignalNum(message.Signal)
	if sig == 0 {
		return 0, malformed("there is no signal %q", syncwire.Shorten(message.Signal))
	}
	return sig, nil
}

// classifyExec is the part of classify for commands; nil for what is none of them.
func classifyExec(err error) *apiError {
	var (
		limit *execs.LimitError
		start *execs.StartError
	)
	switch {
	case errors.As(err, &limit):
		return &apiError{status: http.StatusTooManyRequests, Code: "TooManyCommands", Message: err.Error()}
	case errors.As(err, &start):
		return &apiError{status: http.StatusBadRequest, Code: "CommandNotStarted", Message: err.Error(), ExitCode: start.Code}
	case errors.Is(err, execs.ErrNotFound):
		return &apiError{status: http.StatusNotFound, Code: execwire.CodeNotFound, Message: fmt.Sprint(err)}
	case errors.Is(err, execs.ErrClosed):
		return &apiError{status: http.StatusServiceUnavailable, Code: "ShuttingDown", Message: err.Error()}
	default:
		return nil
	}
}
