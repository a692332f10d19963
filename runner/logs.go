// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

// logQuery is what a caller asks of GET /logs.
type logQuery struct {
	follow, timestamps, records bool
	streams                     ringlog.Stream
	// start finds the offset to begin at.
	start func(*ringlog.Ring) (int64, error)
}

// logs sends the log as plain text or as records. The app is never slowed by it: the reader
// copies from the ring at its own pace, and finds a gap if it was too slow.
func (s *server) logs(w http.ResponseWriter, r *http.Request) error {
	query, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	offset, err := query.start(s.ring)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set(logwire.IDHeader, s.ring.ID())
	h.Set(logwire.OffsetHeader, strconv.FormatInt(offset, 10))
	if query.records {
		h.Set("Content-Type", logwire.ContentType)
	}
	w.WriteHeader(http.StatusOK)

	stream := logStream{
		reader: s.ring.Reader(offset, query.streams),
		render: (&ringlog.Renderer{Timestamps: query.timestamps}).Append,
		out:    w, control: http.NewResponseController(w),
	}
	if query.records {
		stream.render = appendRecords
	}
	if query.follow {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.draining, cancel)()
		stream.follow(ctx)
	}
	// What is there now ends the answer: all of it without follow, and with it what
	// came until the runner drained.
	_, end := s.ring.Bounds()
	_ = stream.send(end) // the header is out: a client that is gone is nobody to tell
	return nil
}

// logStream is one answer of GET /logs.
type logStream struct {
	reader  *ringlog.Reader
	render  func(dst []byte, b *ringlog.Batch) []byte
	batch   ringlog.Batch
	text    []byte
	out     http.ResponseWriter
	control *http.ResponseController
}

// follow sends what is there and what comes, until ctx ends or the client is gone.
func (l *logStream) follow(ctx context.Context) {
	// A client that waits for the first line learns at once that it is connected.
	if l.control.Flush() != nil {
		return
	}
	for l.send(math.MaxInt64) == nil && l.reader.Wait(ctx) == nil {
	}
}

// send sends what lies before limit.
func (l *logStream) send(limit int64) error {
	for l.reader.Fill(&l.batch, limit) {
		l.text = l.render(l.text[:0], &l.batch)
		if len(l.text) == 0 {
			continue
		}
		if err := l.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := l.out.Write(l.text); err != nil {
			return err
		}
		if err := l.control.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// appendRecords renders a batch as records, one a line.
func appendRecords(dst []byte, b *ringlog.Batch) []byte {
	add := func(r logwire.Record) {
		dst = append(r.AppendJSON(dst), '\n')
	}
	if b.Lost > 0 {
		add(logwire.Record{Offset: b.First, Lost: b.Lost})
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		add(logwire.Record{Offset: e.Offset, Time: e.Time.UTC(), Stream: e.Stream.String(), Attempt: e.Attempt, Data: e.Data})
	}
	return dst
}

// parseLogQuery reads the parameters of GET /logs. A parameter that it does not
// know is ignored, as HTTP servers do.
func parseLogQuery(values url.Values, now time.Time) (logQuery, error) {
	q := logQuery{streams: ringlog.All}
	var err error
	if q.follow, err = flag(values, logwire.ParamFollow); err != nil {
		return q, err
	}
	if q.timestamps, err = flag(values, logwire.ParamTimestamps); err != nil {
		return q, err
	}
	switch values.Get(logwire.ParamFormat) {
	case "", logwire.FormatText:
	case logwire.FormatJSON:
		q.records = true
	default:
		return q, malformed("format must be text or json")
	}
	switch values.Get(logwire.ParamStream) {
	case "", logwire.AllStreams:
	case logwire.Stdout:
		q.streams = ringlog.Stdout
	case logwire.Stderr:
		q.streams = ringlog.Stderr
	default:
		return q, malformed("stream must be stdout, stderr or all")
	}
	if values.Has(logwire.ParamOffset) {
		if values.Has(logwire.ParamTail) || values.Has(logwire.ParamSince) {
			return q, malformed("offset cannot be combined with tail or since")
		}
		q.start, err = fromOffset(values.Get(logwire.ParamOffset), values.Get(logwire.ParamLog))
		return q, err
	}
	q.start, err = fromTailAndSince(values, q.streams, now)
	return q, err
}

// fromOffset begins at an offset. In another log it would be another place, and the
// caller would take what follows for what it missed.
func fromOffset(value, id string) (func(*ringlog.Ring) (int64, error), error) {
	offset, err := strconv.ParseInt(value, 10, 64)
	if err != nil || offset < 0 {
		return nil, malformed("offset must be an integer of at least 0")
	}
	return func(ring *ringlog.Ring) (int64, error) {
		if id != "" && id != ring.ID() {
			return 0, &apiError{
				status: http.StatusConflict, Code: "AnotherLog",
				Message: "the log with this ID is gone, and offsets began anew",
			}
		}
		if _, next := ring.Bounds(); offset > next {
			return 0, &apiError{
				status: http.StatusRequestedRangeNotSatisfiable, Code: "OffsetOutOfRange",
				Message: fmt.Sprintf("the log ends at offset %d", next),
			}
		}
		return offset, nil
	}, nil
}

// fromTailAndSince begins where both hold, and at the oldest line without either.
func fromTailAndSince(
	values url.Values, streams ringlog.Stream, now time.Time,
) (func(*ringlog.Ring) (int64, error), error) {
	tail := math.MaxInt
	if value := values.Get(logwire.ParamTail); value != "" {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, malformed("tail must be an integer of at least 0")
		}
		tail = n
	}
	var since time.Time
	if value := values.Get(logwire.ParamSince); value != "" {
		if d, err := time.ParseDuration(value); err == nil && d >= 0 {
			since = now.Add(-d)
		} else if since, err = time.Parse(time.RFC3339, value); err != nil {
			return nil, malformed("since must be a duration such as 10m or a time such as 2006-01-02T15:04:05Z")
		}
	}
	return func(ring *ringlog.Ring) (int64, error) {
		offset, _ := ring.Bounds()
		if tail != math.MaxInt {
			offset = max(offset, ring.Tail(tail, streams))
		}
		if !since.IsZero() {
			offset = max(offset, ring.Since(since))
		}
		return offset, nil
	}, nil
}

// flag reads a boolean; a name without a value is true.
func flag(values url.Values, name string) (bool, error) {
	if !values.Has(name) {
		return false, nil
	}
	value := values.Get(name)
	if value == "" {
		return true, nil
	}
	set, err := strconv.ParseBool(value)
	if err != nil {
		return false, malformed("%s must be true or false", name)
	}
	return set, nil
}
