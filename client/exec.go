// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbar-dev/sandbar/client/internal/pause"
)

// execProtocol is the runner's subprotocol: that of Kubernetes' exec (v5.channel.k8s.io), and two
// channels more, by which a client comes back and sends signals.
const execProtocol = "v1.exec.sandbar.dev"

// The channels: the first byte of each message.
const (
	channelStdin   = 0
	channelStdout  = 1
	channelStderr  = 2
	channelStatus  = 3
	channelResize  = 4
	channelSession = 5
	channelSignal  = 6
	channelClose   = 255
)

const (
	// maxExecInput is how much input one message carries, maxExecOutput how much output one may.
	maxExecInput  = 32 << 10
	maxExecOutput = 1 << 20
	// execPing is how often a silent runner is asked whether it is there, and how long it may
	// take to answer.
	execPing = 15 * time.Second
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Width  uint16
	Height uint16
}

// ExecOptions say what to run.
type ExecOptions struct {
	// Command is the program and its arguments; no shell is in between.
	Command []string
	// Dir is a directory of the runner's workspace; its top if empty. A pod without a runner has
	// none.
	Dir string
	// Stdin is the command's input; nil for none. Reading it goes on for one more read when the
	// command has ended.
	Stdin io.Reader
	// Stdout and Stderr get the output; nil drops it. With TTY all is output.
	Stdout, Stderr io.Writer
	// TTY gives the command a terminal of Size, and of what Resize says later.
	TTY    bool
	Size   TerminalSize
	Resize <-chan TerminalSize
	// Signals are names such as SIGINT, for the command's process group. A pod without a runner
	// takes none: the first ends the connection, and Exec returns *InterruptedError.
	Signals <-chan string
	// Container is the container of a pod without a runner; its first, or the one that the
	// Template names, if empty. It means nothing to a runner.
	Container string
	// OnState is told of a lost connection and its end; nil for nobody.
	OnState func(ExecState)
}

// ExecState is what happened to the connection of a command.
type ExecState struct {
	// Lost is true when the connection is lost and is tried again after Retry, false when the
	// command is attached again. The command itself goes on meanwhile. Input that was on the way
	// may be lost; output is not, but for Gap bytes.
	Lost  bool
	Err   error
	Retry time.Duration
	Gap   int64
}

// Exec runs a command in the sandbox, beside its process, and returns its exit code: 128 and the
// signal's number for one that a signal ended. A connection that breaks is made again, and the
// command is attached to; it is ended by the runner when nobody comes back for five minutes. In a pod
// without a runner, whose exec is Kubernetes' own, nobody comes back: a broken connection is an error.
func (i *Instance) Exec(ctx context.Context, opts ExecOptions) (int, error) {
	if len(opts.Command) == 0 {
		return 0, errors.New("running a command: there is none")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &execution{instance: i, opts: opts}
	if opts.Stdin != nil {
		x.input = make(chan []byte)
		go x.readInput(ctx)
	}
	for {
		code, err := x.once(ctx)
		switch {
		case err == nil:
			return code, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case x.id == "" || !Temporary(err):
			return 0, fmt.Errorf("running the command: %w", err)
		}
		retry := x.tries.next(err)
		x.tell(ExecState{Lost: true, Err: err, Retry: retry})
		x.lost = true
		if err := pause.For(ctx, retry); err != nil {
			return 0, err
		}
	}
}

// execution is one command.
type execution struct {
	instance *Instance
	opts     ExecOptions
	input    chan []byte // closed at the end of the input
	ended    bool        // the end of the input was read

	// pod is set when there is no runner: the other side is a pod's own exec.
	pod bool
	// signal is the one that ended the connection to a pod.
	signal string

	id     string // empty until the command runs, and for good in a pod
	offset int64  // of the next byte of output
	lost   bool
	tries  pauses
}

func (x *execution) tell(s ExecState) {
	if x.opts.OnState != nil {
		x.opts.OnState(s)
	}
}

func (x *execution) readInput(ctx context.Context) {
	defer close(x.input)
	for {
		buffer := make([]byte, maxExecInput)
		n, err := x.opts.Stdin.Read(buffer)
		if n > 0 {
			select {
			case x.input <- buffer[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (x *execution) query() url.Values {
	if x.id != "" {
		return url.Values{"id": {x.id}, "offset": {strconv.FormatInt(x.offset, 10)}}
	}
	q := url.Values{"command": x.opts.Command}
	if x.opts.Dir != "" {
		q.Set("dir", x.opts.Dir)
	}
	if x.opts.Stdin != nil {
		q.Set("stdin", "true")
	}
	if x.opts.TTY {
		q.Set("tty", "true")
		q.Set("columns", strconv.Itoa(int(x.opts.Size.Width)))
		q.Set("rows", strconv.Itoa(int(x.opts.Size.Height)))
	}
	return q
}

// once attaches to the command until it ends, or the connection does.
func (x *execution) once(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := x.dial(ctx)
	if err != nil {
		cancel()
		return 0, err
	}
	conn.SetReadLimit(maxExecOutput)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		x.send(ctx, conn)
	}()
	code, err := x.receive(ctx, conn)
	cancel()
	_ = conn.CloseNow()
	<-sent
	if err != nil && x.signal != "" {
		err = &InterruptedError{x.signal}
	}
	return code, err
}

// send sends what the client has to say, until the connection ends.
func (x *execution) send(ctx context.Context, conn *websocket.Conn) {
	ping := time.NewTicker(execPing)
	defer ping.Stop()
	if x.pod && x.opts.TTY && x.opts.Size.Width > 0 && writeJSON(ctx, conn, channelResize, x.opts.Size) != nil {
		return
	}
	if x.ended && write(ctx, conn, channelClose, []byte{channelStdin}) != nil {
		return
	}
	input := x.input
	if x.ended {
		input = nil
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case p, ok := <-input:
			if ok {
				err = write(ctx, conn, channelStdin, p)
			} else {
				input, x.ended = nil, true
				err = write(ctx, conn, channelClose, []byte{channelStdin})
			}
		case size := <-x.opts.Resize:
			err = writeJSON(ctx, conn, channelResize, size)
		case name := <-x.opts.Signals:
			if x.pod {
				x.signal = name
				_ = conn.CloseNow()
				return
			}
			err = writeJSON(ctx, conn, channelSignal, map[string]string{"signal": name})
		case <-ping.C:
			err = alive(ctx, conn)
		}
		if err != nil {
			_ = conn.CloseNow() // and the receiver notices
			return
		}
	}
}

// alive fails when the other side does not answer: a network that is gone says nothing.
func alive(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, execPing)
	defer cancel()
	return conn.Ping(ctx)
}

func write(ctx context.Context, conn *websocket.Conn, channel byte, p []byte) error {
	return conn.Write(ctx, websocket.MessageBinary, append([]byte{channel}, p...))
}

func writeJSON(ctx context.Context, conn *websocket.Conn, channel byte, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return write(ctx, conn, channel, text)
}

// receive takes output until the command ends. A runner says so last; in a pod output may come
// behind it, until the connection ends.
func (x *execution) receive(ctx context.Context, conn *websocket.Conn) (int, error) {
	var status []byte
	for {
		_, p, err := conn.Read(ctx)
		if err != nil && status != nil {
			return exitCode(status)
		}
		if err != nil {
			return 0, fmt.Errorf("reading from the command: %w", err)
		}
		if len(p) == 0 {
			continue
		}
		switch channel, p := p[0], p[1:]; channel {
		case channelStdout, channelStderr:
			x.offset += int64(len(p))
			x.tries.reset()
			if err := x.output(channel, p); err != nil {
				return 0, err
			}
		case channelSession:
			if err := x.session(p); err != nil {
				return 0, err
			}
		case channelStatus:
			if status = p; !x.pod {
				return exitCode(status)
			}
		}
	}
}

func (x *execution) output(channel byte, p []byte) error {
	out := x.opts.Stdout
	if channel == channelStderr {
		out = x.opts.Stderr
	}
	if out == nil {
		return nil
	}
	if _, err := out.Write(p); err != nil {
		return &outputError{err}
	}
	return nil
}

// outputError is an error of the caller's own writer: no connection heals it.
type outputError struct{ err error }

func (e *outputError) Error() string { return fmt.Sprintf("writing the output: %v", e.err) }
func (e *outputError) Unwrap() error { return e.err }

// session learns which command this is, and what of its output is gone.
func (x *execution) session(p []byte) error {
	var m struct {
		ID     string `json:"id"`
		Offset int64  `json:"offset"`
		Gap    int64  `json:"gap"`
	}
	if err := json.Unmarshal(p, &m); err != nil {
		return fmt.Errorf("reading what the runner says of the command: %w", err)
	}
	if m.Gap > 0 {
		x.offset += m.Gap
		x.tell(ExecState{Gap: m.Gap})
		return nil
	}
	x.id, x.offset = m.ID, m.Offset
	if x.lost {
		x.lost = false
		x.tell(ExecState{})
	}
	return nil
}

// exitCode reads the end of a command, in the form that Kubernetes gives it.
func exitCode(p []byte) (int, error) {
	var end struct {
		Status  string
		Message string
		Details struct {
			Causes []struct{ Reason, Message string }
		}
	}
	if err := json.Unmarshal(p, &end); err != nil {
		return 0, fmt.Errorf("reading how the command ended: %w", err)
	}
	if end.Status == "Success" {
		return 0, nil
	}
	for _, cause := range end.Details.Causes {
		if cause.Reason == "ExitCode" {
			if code, err := strconv.Atoi(cause.Message); err == nil {
				return code, nil
			}
		}
	}
	return 0, &CallError{Code: http.StatusInternalServerError, Message: end.Message}
}
