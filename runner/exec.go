// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// The subprotocols of GET /exec. The second is what the exec of Kubernetes' pods
// speaks; the first is the same with two channels more.
const (
	execProtocol       = "v1.exec.sandbar.dev"
	kubernetesProtocol = "v5.channel.k8s.io"
)

// The channels: the first byte of each message.
const (
	channelStdin   = 0
	channelStdout  = 1
	channelStderr  = 2
	channelStatus  = 3
	channelResize  = 4
	channelSession = 5 // to the client, in execProtocol
	channelSignal  = 6 // from the client, in execProtocol
	channelClose   = 255
)

const (
	// maxExecs bounds the clients of commands.
	maxExecs = 32
	// maxExecMessage bounds one message of a client.
	maxExecMessage = 64 << 10
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
}

// exec runs a command for a WebSocket client, or attaches it to one that runs.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	query, err := s.parseExec(r.URL.Query())
	if err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		return &apiError{
			status: http.StatusUpgradeRequired, Code: "UpgradeRequired", Message: "/exec speaks WebSocket only",
		}
	}
	// Before the upgrade, so that a command that cannot be started is an answer of HTTP.
	session, err := s.execSession(query)
	if err != nil {
		return err
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{execProtocol, kubernetesProtocol},
		// The token is what lets a caller in, and no page of another origin can send it.
		InsecureSkipVerify: true,
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		if query.id == "" {
			session.End()
		}
		return nil // Accept has answered
	}
	defer conn.CloseNow() //nolint:errcheck // closed in order before, or of no use
	// A request's context ends with its connection, and this one was taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	e := execConn{conn: conn, session: session, own: conn.Subprotocol() == execProtocol}
	e.serve(ctx, cancel, query.offset)
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
	conn    *websocket.Conn
	session *execs.Session
	own     bool // speaks execProtocol
}

// serve attaches the client until the command ends, or the client goes.
func (e *execConn) serve(ctx context.Context, cancel context.CancelFunc, offset int64) {
	client := e.session.Attach(ctx, offset)
	defer client.Detach()
	e.conn.SetReadLimit(maxExecMessage)
	go func() {
		defer cancel()
		e.receive(ctx, client)
	}()
	go e.ping(ctx, cancel)

	if e.own && e.tell(ctx, sessionMessage{ID: e.session.ID(), Offset: client.Offset()}) != nil {
		return
	}
	exit, err := client.Output(func(stream ringlog.Stream, gap int64, p []byte) error {
		switch {
		case gap > 0 && e.own:
			return e.tell(ctx, sessionMessage{ID: e.session.ID(), Gap: gap})
		case gap > 0: // the other protocol cannot resume, and so has no gaps
			return nil
		case stream == ringlog.Stderr:
			return e.send(ctx, channelStderr, p)
		default:
			return e.send(ctx, channelStdout, p)
		}
	})
	if err != nil {
		_ = e.conn.Close(websocket.StatusGoingAway, "another client attached, or the runner ends")
		return
	}
	status, err := json.Marshal(execStatus(exit))
	if err == nil && e.send(ctx, channelStatus, status) == nil {
		_ = e.conn.Close(websocket.StatusNormalClosure, "")
	}
}

// sessionMessage is what channelSession carries: first where the client is, later
// how much was dropped before what follows.
type sessionMessage struct {
	ID string `json:"id"`
	// Offset of the first byte that follows. Bytes of both outputs count.
	Offset int64 `json:"offset,omitempty"`
	Gap    int64 `json:"gap,omitempty"`
}

func (e *execConn) tell(ctx context.Context, m sessionMessage) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.send(ctx, channelSession, text)
}

func (e *execConn) send(ctx context.Context, channel byte, p []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	w, err := e.conn.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	if _, err = w.Write([]byte{channel}); err == nil {
		_, err = w.Write(p)
	}
	return errors.Join(err, w.Close())
}

// receive hands on what the client sends. What makes no sense ends the connection,
// and not the command.
func (e *execConn) receive(ctx context.Context, client *execs.Client) {
	for {
		_, p, err := e.conn.Read(ctx)
		if err != nil {
			return
		}
		if len(p) == 0 {
			continue
		}
		if err := e.accept(client, p[0], p[1:]); err != nil {
			_ = e.conn.Close(websocket.StatusPolicyViolation, syncwire.Shorten(err.Error()))
			return
		}
	}
}

func (e *execConn) accept(client *execs.Client, channel byte, p []byte) error {
	switch {
	case channel == channelStdin:
		return client.Input(p)
	case channel == channelResize:
		size, err := parseSize(p)
		if err == nil {
			e.session.Resize(size)
		}
		return err
	case channel == channelClose:
		if len(p) == 1 && p[0] == channelStdin {
			return client.CloseInput()
		}
		return nil
	case channel == channelSignal && e.own:
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

// parseSize reads a message of channelResize.
func parseSize(p []byte) (execs.Size, error) {
	var size struct{ Width, Height uint16 }
	if err := json.Unmarshal(p, &size); err != nil {
		return execs.Size{}, malformed("a size must be {\"Width\": columns, \"Height\": rows}")
	}
	return execs.Size{Rows: size.Height, Columns: size.Width}, nil
}

// parseSignal reads a message of channelSignal.
func parseSignal(p []byte) (unix.Signal, error) {
	var message struct {
		Signal string `json:"signal"`
	}
	if err := json.Unmarshal(p, &message); err != nil {
		return 0, malformed("a signal must be {\"signal\": \"SIGINT\"}")
	}
	sig := unix.SignalNum(message.Signal)
	if sig == 0 {
		return 0, malformed("there is no signal %q", syncwire.Shorten(message.Signal))
	}
	return sig, nil
}

// status is the end of a command in the form that Kubernetes gives it.
type status struct {
	Metadata struct{}       `json:"metadata"`
	Status   string         `json:"status"`
	Message  string         `json:"message,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Details  *statusDetails `json:"details,omitempty"`
}

type statusDetails struct {
	Causes []statusCause `json:"causes"`
}

type statusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func execStatus(exit execs.Exit) status {
	if exit.Code == 0 {
		return status{Status: "Success"}
	}
	code := strconv.Itoa(exit.Code)
	st := status{
		Status: "Failure", Reason: "NonZeroExitCode",
		Message: "command terminated with non-zero exit code: " + code,
		Details: &statusDetails{Causes: []statusCause{{Reason: "ExitCode", Message: code}}},
	}
	if exit.Signal != "" {
		st.Details.Causes = append(st.Details.Causes, statusCause{Reason: "Signal", Message: exit.Signal})
	}
	return st
}

// parseExec reads the parameters of GET /exec.
func (s *server) parseExec(values url.Values) (execQuery, error) {
	q := execQuery{id: values.Get("id")}
	if q.id != "" {
		offset, err := strconv.ParseInt(values.Get("offset"), 10, 64)
		if err != nil || offset < 0 {
			return q, malformed("with id comes offset, an integer of at least 0")
		}
		q.offset = offset
		return q, nil
	}
	args := values["command"]
	if len(args) == 0 || args[0] == "" {
		return q, malformed("command is missing; it is given once for each argument")
	}
	for _, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return q, malformed("an argument contains a zero byte")
		}
	}
	c := execs.Command{Args: args, Env: s.environment(), Dir: s.config.Workdir}
	var err error
	if c.Terminal, err = flag(values, "tty"); err != nil {
		return q, err
	}
	if c.Stdin, err = flag(values, "stdin"); err != nil {
		return q, err
	}
	if dir := values.Get("dir"); dir != "" {
		if err := workspace.CheckPath(dir); err != nil {
			return q, err
		}
		c.Dir = filepath.Join(c.Dir, dir)
	}
	for name, to := range map[string]*uint16{"rows": &c.Size.Rows, "columns": &c.Size.Columns} {
		if value := values.Get(name); value != "" {
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return q, malformed("%s must be an integer from 0 to 65535", name)
			}
			*to = uint16(n)
		}
	}
	if c.Terminal && !hasVariable(c.Env, "TERM") {
		c.Env = append(c.Env, "TERM=xterm-256color")
	}
	q.command = c
	return q, nil
}

func hasVariable(env []string, name string) bool {
	for _, pair := range env {
		if strings.HasPrefix(pair, name+"=") {
			return true
		}
	}
	return false
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
		return &apiError{status: http.StatusBadRequest, Code: "CommandNotStarted", Message: err.Error()}
	case errors.Is(err, execs.ErrNotFound):
		return &apiError{status: http.StatusNotFound, Code: "CommandNotFound", Message: fmt.Sprint(err)}
	case errors.Is(err, execs.ErrClosed):
		return &apiError{status: http.StatusServiceUnavailable, Code: "ShuttingDown", Message: err.Error()}
	default:
		return nil
	}
}
