// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package load sends one HTTP/1.1 request again and again over kept connections and measures. It
// reads no more of an answer than it must, so that it is not what is measured.
package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// Subject is what is measured.
type Subject struct {
	Name string
	// Address is host:port; TLS, if set, is spoken there.
	Address string
	TLS     *tls.Config
	// Path begins with a slash. Header are whole lines, each ended by CRLF.
	Path, Header string
}

// Result is what one run gave.
type Result struct {
	// Latencies of the requests that were answered are sorted. In an open loop they count from when
	// the request was due.
	Latencies []time.Duration
	// Failed is how many requests had no answer, or another one than 200.
	Failed int
	Took   time.Duration
}

// FailedError says that requests have failed. The Result beside it holds the others.
type FailedError struct {
	Name       string
	Failed, Of int
	// First is one of the failures.
	First error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%d of %d requests to %s failed: %v", e.Failed, e.Of, e.Name, e.First)
}

func (e *FailedError) Unwrap() error { return e.First }

// failurePause is the time between a failure and the next connection, so that a subject which fails at
// once does not use up the machine's ports.
const failurePause = 10 * time.Millisecond

// Rate is requests per second.
func (r Result) Rate() float64 { return float64(len(r.Latencies)) / r.Took.Seconds() }

// Closed keeps connections busy for a time: each sends its next request when it has its answer. When
// requests fail it goes on, and returns a *FailedError at the end.
func Closed(ctx context.Context, s Subject, path string, connections int, long time.Duration) (Result, error) {
	end := time.Now().Add(long)
	return run(ctx, s, path, connections, func(_ int, c *conn) {
		for last := time.Now(); last.Before(end) && ctx.Err() == nil; last = time.Now() {
			c.askSince(ctx, last)
		}
	})
}

// Open sends at a steady rate for a time, spread over connections. A request that waits for the
// one before it on its connection is late, and its time counts from when it was due: a server
// that stalls is not spared the requests that would have come meanwhile. Failures are as in [Closed].
func Open(ctx context.Context, s Subject, path string, connections int, rate float64, long time.Duration) (Result, error) {
	every := time.Duration(float64(connections) / rate * float64(time.Second))
	start := time.Now().Add(50 * time.Millisecond)
	return run(ctx, s, path, connections, func(i int, c *conn) {
		for due := start.Add(every * time.Duration(i) / time.Duration(connections)); due.Before(start.Add(long)) && ctx.Err() == nil; due = due.Add(every) {
			sleepUntil(due)
			c.askSince(ctx, due)
		}
	})
}

// sleepUntil is exact to some 50 µs. A timer of the Go runtime is late by up to a millisecond
// when nothing else runs.
func sleepUntil(t time.Time) {
	if wait := time.Until(t); wait > 0 {
		ts := unix.NsecToTimespec(int64(wait))
		_ = unix.Nanosleep(&ts, nil)
	}
}

// run opens connections, warms them up, and lets each do its part.
func run(ctx context.Context, s Subject, path string, connections int, each func(i int, c *conn)) (all Result, err error) {
	conns := make([]*conn, connections)
	for i := range conns {
		c := &conn{subject: s, path: path}
		if err := c.dial(ctx); err != nil {
			return all, &FailedError{Name: s.Name, Failed: connections, Of: connections, First: err}
		}
		defer func() { _ = c.Close() }()
		c.askSince(ctx, time.Now())
		c.took = nil
		conns[i] = c
	}
	var wait sync.WaitGroup
	start := time.Now()
	for i, c := range conns {
		wait.Go(func() { each(i, c) })
	}
	wait.Wait()
	all.Took = time.Since(start)
	var first error
	for _, c := range conns {
		all.Latencies = append(all.Latencies, c.took...)
		all.Failed += c.failed
		first = cmp.Or(first, c.failure)
	}
	slices.Sort(all.Latencies)
	if all.Failed > 0 {
		return all, &FailedError{Name: s.Name, Failed: all.Failed, Of: all.Failed + len(all.Latencies), First: first}
	}
	return all, nil
}

// conn is a connection, the request that it sends, and its results.
type conn struct {
	net.Conn
	subject Subject
	path    string
	request []byte
	in      *bufio.Reader

	took    []time.Duration
	failed  int
	failure error // the first
}

func (c *conn) dial(ctx context.Context) error {
	s := c.subject
	made, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("reaching %s: %w", s.Name, err)
	}
	made = rawconn.Of(made)
	if s.TLS != nil {
		made = tls.Client(made, s.TLS)
	}
	c.Conn, c.in = made, bufio.NewReaderSize(made, 64<<10)
	c.request = []byte("GET " + s.Path + c.path + " HTTP/1.1\r\nHost: " + s.Address + "\r\n" + s.Header + "\r\n")
	return nil
}

// askSince sends the request and records the time since it was due, or the failure. After a failure it
// opens the connection again.
func (c *conn) askSince(ctx context.Context, due time.Time) {
	err := c.ask()
	if err == nil {
		c.took = append(c.took, time.Since(due))
		return
	}
	c.failed++
	c.failure = cmp.Or(c.failure, err)
	_ = c.Close()
	time.Sleep(failurePause)
	if err := c.dial(ctx); err != nil { // the next request fails, too, and tries again
		c.failure = cmp.Or(c.failure, err)
	}
}

var errAnswer = errors.New("unexpected answer")

// ask sends the request and reads the answer.
func (c *conn) ask() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")):
			return fmt.Errorf("%w: %q", errAnswer, line)
		case len(line) <= 2 && length < 0:
			return fmt.Errorf("%w: it has no Content-Length", errAnswer)
		case len(line) <= 2:
			_, err := io.CopyN(io.Discard, c.in, int64(length))
			return err
		case len(line) > 16 && (line[0] == 'C' || line[0] == 'c') && bytes.EqualFold(line[:15], []byte("Content-Length:")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[15:]))); err != nil {
				return fmt.Errorf("%w: %q", errAnswer, line)
			}
		}
	}
}
