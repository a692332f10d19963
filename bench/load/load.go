// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package load sends one HTTP/1.1 request again and again over kept connections and measures. It
// reads no more of an answer than it must, so that it is not what is measured.
package load

import (
	"bufio"
	"bytes"
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
	// Latencies are sorted. In an open loop they count from when the request was due.
	Latencies []time.Duration
	Took      time.Duration
}

// Rate is requests per second.
func (r Result) Rate() float64 { return float64(len(r.Latencies)) / r.Took.Seconds() }

// Closed keeps connections busy for a time: each sends its next request when it has its answer.
func Closed(ctx context.Context, s Subject, path string, connections int, long time.Duration) (Result, error) {
	end := time.Now().Add(long)
	return run(ctx, s, path, connections, func(_ int, ask func() error) ([]time.Duration, error) {
		var took []time.Duration
		for last := time.Now(); last.Before(end) && ctx.Err() == nil; {
			if err := ask(); err != nil {
				return nil, err
			}
			now := time.Now()
			took = append(took, now.Sub(last))
			last = now
		}
		return took, nil
	})
}

// Open sends at a steady rate for a time, spread over connections. A request that waits for the
// one before it on its connection is late, and its time counts from when it was due: a server
// that stalls is not spared the requests that would have come meanwhile.
func Open(ctx context.Context, s Subject, path string, connections int, rate float64, long time.Duration) (Result, error) {
	every := time.Duration(float64(connections) / rate * float64(time.Second))
	start := time.Now().Add(50 * time.Millisecond)
	return run(ctx, s, path, connections, func(i int, ask func() error) ([]time.Duration, error) {
		var took []time.Duration
		for due := start.Add(every * time.Duration(i) / time.Duration(connections)); due.Before(start.Add(long)) && ctx.Err() == nil; due = due.Add(every) {
			sleepUntil(due)
			if err := ask(); err != nil {
				return nil, err
			}
			took = append(took, time.Since(due))
		}
		return took, nil
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
func run(ctx context.Context, s Subject, path string, connections int, each func(i int, ask func() error) ([]time.Duration, error)) (Result, error) {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		all  Result
		errs []error
	)
	conns := make([]*conn, connections)
	for i := range conns {
		c, err := dial(ctx, s, path)
		if err != nil {
			return all, err
		}
		defer c.Close()
		if err := c.ask(); err != nil {
			return all, fmt.Errorf("asking %s: %w", s.Name, err)
		}
		conns[i] = c
	}
	start := time.Now()
	for i, c := range conns {
		wait.Go(func() {
			took, err := each(i, c.ask)
			mu.Lock()
			defer mu.Unlock()
			all.Latencies = append(all.Latencies, took...)
			if err != nil {
				errs = append(errs, fmt.Errorf("asking %s: %w", s.Name, err))
			}
		})
	}
	wait.Wait()
	all.Took = time.Since(start)
	slices.Sort(all.Latencies)
	return all, errors.Join(errs...)
}

// conn is a connection with the request that it sends.
type conn struct {
	net.Conn
	request []byte
	in      *bufio.Reader
}

func dial(ctx context.Context, s Subject, path string) (*conn, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("reaching %s: %w", s.Name, err)
	}
	c = rawconn.Of(c)
	if s.TLS != nil {
		c = tls.Client(c, s.TLS)
	}
	request := "GET " + s.Path + path + " HTTP/1.1\r\nHost: " + s.Address + "\r\n" + s.Header + "\r\n"
	return &conn{Conn: c, request: []byte(request), in: bufio.NewReaderSize(c, 64<<10)}, nil
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
