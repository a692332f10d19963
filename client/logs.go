// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// LogOptions say what of a log is wanted. The zero value is all that is held of both streams.
type LogOptions struct {
	// Follow goes on with what comes, until the context ends.
	Follow bool
	// Tail begins that many lines before the end; nil for no bound.
	Tail *int
	// Since begins with what is not older; zero for no bound. Whole seconds count.
	Since time.Duration
	// Stream is stdout, stderr or empty for both.
	Stream string
	// Timestamps puts the time before each line of a log that has no records; a record has its
	// time anyway.
	Timestamps bool
	// Wait keeps trying when the instance is not ready or not reachable at the beginning. A log
	// that has begun is always resumed.
	Wait bool
}

// LogEventType is what happened in a log.
type LogEventType string

// The events of a log.
const (
	// LogOutput: the app wrote Record.
	LogOutput LogEventType = "output"
	// LogGap: Record.Lost bytes were dropped before they could be read.
	LogGap LogEventType = "gap"
	// LogDisconnected: the connection is lost; it is tried again after Retry.
	LogDisconnected LogEventType = "disconnected"
	// LogConnected: the log is being read, at the beginning or again.
	LogConnected LogEventType = "connected"
	// LogKept: the instance is suspended, and what follows was kept of its log at Record.Time. It ends
	// there, and has neither streams nor offsets.
	LogKept LogEventType = "kept"
	// LogReplaced: the log that was read is gone, with what of it was not read; another began,
	// because the runner was started anew.
	LogReplaced LogEventType = "replaced"
	// LogEnded: the container of a pod without a runner has ended, and its log with it; Message says with
	// what, as far as the instance's condition Ready does, without what it quotes of the log. The log goes on
	// with the next container.
	LogEnded LogEventType = "ended"
)

// LogEvent is one piece of a log, or something that happened to the reading of it.
type LogEvent struct {
	Type   LogEventType
	Record logwire.Record
	// Err is why the connection was lost; nil when the other side ended it.
	Err error
	// Retry is how long the next try waits.
	Retry time.Duration
	// Message is what a LogEnded is about. It may come from inside the sandbox.
	Message string
}

// ErrLogCut means that the connection broke and that the log cannot be resumed: its bytes have no offsets,
// as those of a runner do, and its lines no times, as those of a pod do when it is followed.
var ErrLogCut = errors.New("the connection broke, and this log cannot be resumed without losing or repeating lines: read it again")

// Logs reads the log of an instance, or of a component. A connection that breaks is made again
// and goes on with the next byte: none is lost or repeated, but where an event says so. An error
// ends the log; without one it ends where the log ends, or never with Follow. When the context
// ends, its error is the last.
func (i *Instance) Logs(ctx context.Context, opts LogOptions) iter.Seq2[LogEvent, error] {
	return func(yield func(LogEvent, error) bool) {
		f := follow{instance: i, opts: opts, yield: yield, next: -1, pod: podLog{why: notReady(&i.Status)}}
		if err := f.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(LogEvent{}, fmt.Errorf("reading the log: %w", err))
		}
	}
}

// errReplaced means that offsets count in another log from now on.
var errReplaced = errors.New("replaced")

// errStopped means that whoever ranges over the log has left the loop.
var errStopped = errors.New("stopped")

// follow is one reading of a log.
type follow struct {
	instance *Instance
	opts     LogOptions
	yield    func(LogEvent, error) bool

	began bool   // an answer came
	id    string // of the log that next counts in
	next  int64  // offset to go on at; -1 before the first byte
	pod   podLog // of a pod without a runner
	tries pauses
}

func (f *follow) run(ctx context.Context) error {
	for {
		err := f.once(ctx)
		switch {
		case errors.Is(err, errReplaced):
			continue
		case errors.Is(err, errEnded):
			if err := pause.For(ctx, f.tries.next(nil)); err != nil {
				return err
			}
			continue
		case errors.Is(err, errStopped), errors.Is(err, ErrLogCut):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !f.opts.Follow:
			return nil
		case err != nil && (!Temporary(err) || !f.began && !f.opts.Wait):
			return err
		}
		retry := f.tries.next(err)
		if err := f.emit(LogEvent{Type: LogDisconnected, Err: err, Retry: retry}); err != nil {
			return err
		}
		if err := pause.For(ctx, retry); err != nil {
			return err
		}
	}
}

func (f *follow) emit(e LogEvent) error {
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// once reads until the connection ends.
func (f *follow) once(ctx context.Context) error {
	res, err := f.instance.ask(ctx, Request{Verb: "log", Query: f.query()})
	var answer *CallError
	if errors.As(err, &answer) && answer.Code == http.StatusRequestedRangeNotSatisfiable && f.next > 0 {
		return f.replaced("")
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if at, err := time.Parse(time.RFC3339, res.Header.Get(logwire.KeptHeader)); err == nil {
		if err := f.emit(LogEvent{Type: LogKept, Record: logwire.Record{Time: at}}); err != nil {
			return err
		}
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != logwire.ContentType {
		return f.plain(ctx, res.Body)
	}
	id := res.Header.Get(logwire.IDHeader)
	if f.id != "" && id != f.id {
		return f.replaced(id)
	}
	f.id, f.began = id, true
	if begin, err := strconv.ParseInt(res.Header.Get(logwire.OffsetHeader), 10, 64); err == nil && f.next < 0 {
		f.next = begin // also a connection that breaks before the first record goes on there
	}
	if err := f.emit(LogEvent{Type: LogConnected}); err != nil {
		return err
	}
	return f.records(res.Body)
}

// replaced goes on at the beginning of another log; the next try reads it.
func (f *follow) replaced(id string) error {
	f.id, f.next = id, 0
	if err := f.emit(LogEvent{Type: LogReplaced}); err != nil {
		return err
	}
	return errReplaced
}

// records reads whole lines only. Half a line is what the connection broke in; it comes again.
func (f *follow) records(body io.Reader) error {
	in := bufio.NewReaderSize(body, logwire.MaxRecordBytes)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && len(line) == 0 {
				return nil
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("reading a record: %w", err)
		}
		e := LogEvent{Type: LogOutput}
		if e.Record, err = logwire.Parse(line); err != nil {
			return fmt.Errorf("reading a record: %w", err)
		}
		if e.Record.Lost > 0 {
			e.Type = LogGap
		}
		f.next = e.Record.Next()
		f.tries.reset()
		if err := f.emit(e); err != nil {
			return err
		}
	}
}

func (f *follow) query() url.Values {
	q := url.Values{logwire.ParamFormat: {logwire.FormatJSON}}
	if f.opts.Follow {
		q.Set(logwire.ParamFollow, "true")
	}
	if f.asksTimes() {
		q.Set(logwire.ParamTimestamps, "true")
	}
	if f.opts.Stream != "" {
		q.Set(logwire.ParamStream, f.opts.Stream)
	}
	if f.next >= 0 {
		q.Set(logwire.ParamOffset, strconv.FormatInt(f.next, 10))
		return q
	}
	if f.pod.timed {
		q.Set(logwire.ParamSince, strconv.FormatInt(int64(f.pod.podSince(time.Now())/time.Second), 10)+"s")
		return q
	}
	if f.opts.Tail != nil {
		q.Set(logwire.ParamTail, strconv.Itoa(*f.opts.Tail))
	}
	if f.opts.Since > 0 {
		q.Set(logwire.ParamSince, strconv.FormatInt(int64(max(1, f.opts.Since/time.Second)), 10)+"s")
	}
	return q
}
