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
	"slices"
	"strconv"
	"strings"
	"time"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/pause"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

const (
	// maxExecInput is how much input one message carries, maxExecOutput how much output one may.
	maxExecInput  = 32 << 10
	maxExecOutput = 1 << 20
	// endWrite bounds the sending of the wish that a command end, and endWait the waiting for its end:
	// a runner takes up to four seconds.
	endWrite = time.Second
	endWait  = 6 * time.Second
	// execPing is how often a silent runner is asked whether it is there, and how long it may
	// take to answer.
	execPing = 15 * time.Second
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize = execwire.Size

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

var (
	// ErrReplaced means that another client attached to the command and took this one's place.
	ErrReplaced = errors.New("somebody else has attached to the command, which goes on there")
	// ErrCommandLost means that the command ended while nobody was attached, with its sandbox.
	ErrCommandLost = errors.New("the command has ended, and how is not known: the sandbox was suspended or restarted meanwhile")
)

// Exec runs a command in the sandbox, beside its process, and returns its exit code: 128 and the
// signal's number for one that a signal ended. A connection that breaks is made again, and the
// command is attached to; it is ended by the runner when nobody comes back for five minutes. In a pod
// without a runner, whose exec is Kubernetes' own, nobody comes back: a broken connection is an error.
//
// A runner ends the command when the context ends or opts.Stdout or opts.Stderr refuses its output, as
// a pipe does whose reader has gone. A command that could not be started is a *CallError with ExitCode.
func (i *Instance) Exec(ctx context.Context, opts ExecOptions) (int, error) {
	if len(opts.Command) == 0 {
		return 0, errors.New("running a command: there is none")
	}
	if slices.ContainsFunc(opts.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return 0, errors.New("running a command: an argument contains a zero byte, which no program can be given")
	}
	return (&execution{instance: i, opts: opts}).run(ctx)
}

func (x *execution) run(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := x.opts
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
		case x.begun && isCommandNotFound(err):
			return 0, fmt.Errorf("%w (%w)", ErrCommandLost, err)
		case !x.begun || !Temporary(err):
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
	inLine   bool        // the last input did not end its line

	// pod is set when there is no runner: the other side is a pod's own exec.
	pod bool
	// signal is the one that ended the connection to a pod.
	signal string

	begun  bool   // the runner said which command this is
	joined bool   // the command was begun by somebody else
	id     string // empty until the command runs, and for good in a pod
	offset int64  // of the next byte of output
	lost   bool
	tries  pauses
	// refused is why the caller's own writers take no more output.
	refused error
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
		return url.Values{execwire.ParamID: {x.id}, execwire.ParamOffset: {strconv.FormatInt(x.offset, 10)}}
	}
	if x.isLong() && !x.pod {
		return url.Values{execwire.ParamMessage: {"true"}}
	}
	q := url.Values{execwire.ParamCommand: x.opts.Command}
	if x.opts.Dir != "" {
		q.Set(execwire.ParamDir, x.opts.Dir)
	}
	if x.opts.Stdin != nil {
		q.Set(execwire.ParamStdin, "true")
	}
	if x.opts.TTY {
		q.Set(execwire.ParamTTY, "true")
		q.Set(execwire.ParamColumns, strconv.Itoa(int(x.opts.Size.Width)))
		q.Set(execwire.ParamRows, strconv.Itoa(int(x.opts.Size.Height)))
	}
	return q
}

// once attaches to the command until it ends, or the connection does.
func (x *execution) once(caller context.Context) (int, error) {
	conn, err := x.dial(caller)
	if err != nil {
		return 0, err
	}
	// The connection outlives the caller's context by the time that it takes to end the command.
	ctx, cancel := context.WithCancel(context.WithoutCancel(caller))
	defer cancel()
	defer context.AfterFunc(caller, func() {
		x.end(ctx, conn)
		cancel()
	})()
	if x.id == "" && !x.pod && x.isLong() {
		if err := x.sendCommand(ctx, conn); err != nil {
			_ = conn.CloseNow()
			return 0, fmt.Errorf("sending the command: %w", err)
		}
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		x.send(ctx, conn)
	}()
	code, err := x.receive(ctx, cancel, conn)
	cancel()
	_ = conn.CloseNow()
	<-sent
	if err != nil && x.signal != "" {
		err = &InterruptedError{x.signal}
	}
	return code, err
}

// end has the runner end the command. To a pod nothing is left to say.
func (x *execution) end(ctx context.Context, conn *wsconn.Conn) {
	if x.pod {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endWrite)
	defer cancel()
	_ = write(ctx, conn, execwire.ChannelClose, []byte{execwire.ChannelStdout}) // a connection that is lost: the runner waits for its time
}

// send sends what the client has to say, until the connection ends.
func (x *execution) send(ctx context.Context, conn *wsconn.Conn) {
	ping := time.NewTicker(execPing)
	defer ping.Stop()
	if (x.pod || x.joined) && x.opts.TTY && x.opts.Size.Width > 0 && writeJSON(ctx, conn, execwire.ChannelResize, x.opts.Size) != nil {
		return
	}
	if x.ended && x.endInput(ctx, conn) != nil {
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
				x.inLine = p[len(p)-1] != '\n' && p[len(p)-1] != '\r'
				err = write(ctx, conn, execwire.ChannelStdin, p)
			} else {
				input, x.ended = nil, true
				err = x.endInput(ctx, conn)
			}
		case size := <-x.opts.Resize:
			err = writeJSON(ctx, conn, execwire.ChannelResize, size)
		case name := <-x.opts.Signals:
			if x.pod {
				x.signal = name
				_ = conn.CloseNow()
				return
			}
			err = writeJSON(ctx, conn, execwire.ChannelSignal, execwire.Signal{Signal: name})
		case <-ping.C:
			err = alive(ctx, conn)
		}
		if err != nil {
			_ = conn.CloseNow() // and the receiver notices
			return
		}
	}
}

// endOfInput is what a terminal takes for the end of its input, at the beginning of a line. Within one it
// hands over what it has of the line, and the input goes on.
const endOfInput = 4

// endInput ends the command's input. A terminal in a pod stays open, because it has one end for both ways:
// closing it would lose the output.
func (x *execution) endInput(ctx context.Context, conn *wsconn.Conn) error {
	var ends []byte
	if x.opts.TTY && x.inLine {
		ends = append(ends, endOfInput)
	}
	if x.opts.TTY && x.pod {
		ends = append(ends, endOfInput)
	}
	if len(ends) > 0 {
		if err := write(ctx, conn, execwire.ChannelStdin, ends); err != nil || x.pod {
			return err
		}
	}
	return write(ctx, conn, execwire.ChannelClose, []byte{execwire.ChannelStdin})
}

// alive fails when the other side does not answer: a network that is gone says nothing.
func alive(ctx context.Context, conn *wsconn.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, execPing)
	defer cancel()
	return conn.Ping(ctx)
}

func write(ctx context.Context, conn *wsconn.Conn, channel byte, p []byte) error {
	return conn.Write(ctx, []byte{channel}, p)
}

func writeJSON(ctx context.Context, conn *wsconn.Conn, channel byte, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return write(ctx, conn, channel, text)
}

// receive takes output until the command ends. A runner says so last; in a pod output may come
// behind it, until the connection ends.
//
// When the caller's writers refuse it, the command is ended and the rest dropped.
func (x *execution) receive(ctx context.Context, cancel context.CancelFunc, conn *wsconn.Conn) (int, error) {
	var status []byte
	for {
		p, err := conn.Read(ctx)
		switch {
		case err == nil:
		case x.refused != nil:
			return 0, x.refused
		case status != nil:
			return exitCode(status)
		case wsconn.CloseCode(err) == execwire.CloseReplaced:
			return 0, ErrReplaced
		default:
			return 0, fmt.Errorf("reading from the command: %w", err)
		}
		if len(p) == 0 {
			continue
		}
		switch channel, p := p[0], p[1:]; channel {
		case execwire.ChannelStdout, execwire.ChannelStderr:
			x.offset += int64(len(p))
			x.tries.reset()
			if x.refused != nil {
				continue
			}
			if err := x.output(channel, p); err != nil {
				if x.refused = err; x.pod {
					return 0, err
				}
				x.end(ctx, conn)
				defer time.AfterFunc(endWait, cancel).Stop()
			}
		case execwire.ChannelSession:
			if err := x.session(p); err != nil {
				return 0, err
			}
		case execwire.ChannelStatus:
			switch status = p; {
			case x.refused != nil:
				return 0, x.refused
			case !x.pod:
				return exitCode(status)
			}
		}
	}
}

func (x *execution) output(channel byte, p []byte) error {
	out := x.opts.Stdout
	if channel == execwire.ChannelStderr {
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
	var m execwire.Session
	if err := json.Unmarshal(p, &m); err != nil {
		return fmt.Errorf("reading what the runner says of the command: %w", err)
	}
	if m.Gap > 0 {
		x.offset += m.Gap
		x.tell(ExecState{Gap: m.Gap})
		return nil
	}
	x.id, x.offset, x.begun = m.ID, m.Offset, true
	if x.lost {
		x.lost = false
		x.tell(ExecState{})
	}
	return nil
}

// exitCode reads the end of a command, in the form that Kubernetes gives it.
func exitCode(p []byte) (int, error) {
	var end execwire.Status
	if err := json.Unmarshal(p, &end); err != nil {
		return 0, fmt.Errorf("reading how the command ended: %w", err)
	}
	if reason, exit, ok := end.Refusal(); ok {
		return 0, &CallError{Verb: "exec", Code: http.StatusBadRequest, Reason: reason, Message: end.Message, ExitCode: exit, Sandbox: true}
	}
	if code, ok := end.ExitCode(); ok {
		return code, nil
	}
	return 0, &CallError{Code: http.StatusInternalServerError, Message: end.Message, ExitCode: startCode(end.Message)}
}
