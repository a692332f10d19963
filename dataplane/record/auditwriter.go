// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	lumberjack "gopkg.in/natefinch/lumberjack.v2"
)

const (
	// auditQueueBytes bounds the lines that wait for the writer. When a disk or a reader of
	// stdout is slower than requests for so long that they are full, lines are dropped and
	// counted: a data plane that waited for a full disk would end the tenants' work with it.
	auditQueueBytes = 4 << 20
	// auditBatchBytes is what is written at once; it must be well below the size at which a
	// file is put away (1 MiB at least).
	auditBatchBytes = 256 << 10
	// auditLinger is how long the writer waits for more lines once there is one, unless there are
	// auditBatchBytes already: to wake a thread and write for each line costs the request more
	// than all else that is done for its line. What a crash loses grows by that much.
	auditLinger = 10 * time.Millisecond
	// auditFlushTimeout bounds how long the end of the server waits for the last lines.
	auditFlushTimeout = 5 * time.Second
)

// Reasons for which a line is not written.
const (
	droppedQueue = "queue_full"
	droppedRate  = "rate"
	droppedError = "write_error"
)

var (
	auditDropReasons = []string{droppedQueue, droppedRate, droppedError}
	errNotFlushed    = errors.New("the audit log did not take its last lines in time")
)

// openAuditLog opens where lines go: "-" is stdout, anything else a file that is put away under
// its name and the time when it is full.
func openAuditLog(opts Options) (io.WriteCloser, error) {
	if opts.AuditOut != nil {
		return opts.AuditOut, nil
	}
	if opts.AuditLog == "-" {
		return stdout{}, nil
	}
	// The library opens with the first line. That a file cannot be written must be known
	// before anything is served that should have been in it.
	file, err := os.OpenFile(opts.AuditLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return &lumberjack.Logger{Filename: opts.AuditLog, MaxSize: opts.AuditLogMaxSize, MaxBackups: opts.AuditLogMaxBackups}, nil
}

// stdout is not ours to close.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) } //nolint:wrapcheck // an io.Writer
func (stdout) Close() error                { return nil }

// auditWriter writes lines in one goroutine, so that no request waits for a disk.
type auditWriter struct {
	out     io.WriteCloser
	metrics *Metrics
	log     *slog.Logger

	mu      sync.Mutex
	pending []byte // whole lines
	// urgent is set from when lines are to be written at once until they are taken.
	urgent  bool
	spare   []byte // what was pending before, to be used again
	dropped uint64 // since the last line
	closing bool

	wake  chan struct{} // holds at most one, as does hurry: do not wait for more
	hurry chan struct{}
	done  chan struct{}
	// failing and torn are the goroutine's: the last write failed, perhaps within a line.
	failing, torn bool
}

func newAuditWriter(out io.WriteCloser, m *Metrics, log *slog.Logger) *auditWriter {
	return &auditWriter{out: out, metrics: m, log: log, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), done: make(chan struct{})}
}

// add takes a line without its end. It does not wait.
func (w *auditWriter) add(line []byte) {
	const room = 64 // for the count and the end
	w.mu.Lock()
	if w.closing || len(w.pending)+len(line)+room > auditQueueBytes {
		w.dropped++
		w.mu.Unlock()
		w.metrics.auditDropped.Get(droppedQueue).Inc()
		return
	}
	first := len(w.pending) == 0
	w.pending = append(w.pending, line...)
	if w.dropped > 0 {
		w.pending = strconv.AppendUint(append(w.pending, `,"dropped":`...), w.dropped, 10)
		w.dropped = 0
	}
	w.pending = append(w.pending, "}\n"...)
	full := !w.urgent && len(w.pending) >= auditBatchBytes
	w.urgent = w.urgent || full
	w.mu.Unlock()
	if first {
		signal(w.wake)
	}
	if full {
		signal(w.hurry)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop counts a line that is not to be written; the next line says how many there were.
func (w *auditWriter) drop(reason string) {
	w.mu.Lock()
	w.dropped++
	w.mu.Unlock()
	w.metrics.auditDropped.Get(reason).Inc()
}

// run writes until close is called and everything is written.
func (w *auditWriter) run() {
	defer close(w.done)
	linger := time.NewTimer(auditLinger)
	defer linger.Stop()
	for range w.wake {
		linger.Reset(auditLinger)
		select {
		case <-linger.C:
		case <-w.hurry:
		}
		lines, closing := w.take()
		w.write(lines)
		if closing {
			return
		}
	}
}

func (w *auditWriter) take() (lines []byte, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines = w.pending
	w.pending, w.spare, w.urgent = w.spare[:0], lines, false
	return lines, w.closing
}

// write writes whole lines, some at a time.
func (w *auditWriter) write(lines []byte) {
	for len(lines) > 0 {
		batch := lines
		if len(batch) > auditBatchBytes {
			end := bytes.LastIndexByte(batch[:auditBatchBytes], '\n')
			if end < 0 {
				end = bytes.IndexByte(batch, '\n')
			}
			batch = batch[:end+1]
		}
		lines = lines[len(batch):]
		w.writeBatch(batch)
	}
}

func (w *auditWriter) writeBatch(batch []byte) {
	if w.torn {
		// A disk that was full took half a line. The next one begins on its own, or two
		// events would be lost instead of one.
		if _, err := w.out.Write([]byte("\n")); err != nil {
			w.failed(err, batch)
			return
		}
		w.torn = false
	}
	n, err := w.out.Write(batch)
	whole := bytes.Count(batch[:n], []byte("\n"))
	w.metrics.auditLines.Add(float64(whole))
	if err != nil {
		w.torn = n > 0 && batch[n-1] != '\n'
		w.failed(err, batch[n:])
		return
	}
	if w.failing {
		w.failing = false
		w.log.Info("the audit log can be written again")
	}
}

func (w *auditWriter) failed(err error, lost []byte) {
	lines := bytes.Count(lost, []byte("\n"))
	w.mu.Lock()
	w.dropped += uint64(lines)
	w.mu.Unlock()
	w.metrics.auditDropped.Get(droppedError).Add(float64(lines))
	if !w.failing {
		w.failing = true
		w.log.Error("the audit log cannot be written: lines are lost until it can", "error", err)
	}
}

// close writes what waits, for a bounded time, and ends run.
func (w *auditWriter) close() error {
	w.mu.Lock()
	w.closing, w.urgent = true, true
	w.mu.Unlock()
	signal(w.wake)
	signal(w.hurry)
	timeout := time.NewTimer(auditFlushTimeout)
	defer timeout.Stop()
	select {
	case <-w.done:
		return w.out.Close() //nolint:wrapcheck // as below
	case <-timeout.C:
		return errNotFlushed
	}
}
