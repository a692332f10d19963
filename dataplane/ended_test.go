// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var endedSeries = regexp.MustCompile(`(?m)^sandbar_dataplane_connections_ended_total\{during="([a-z0-9]+)"\} ([1-9].*)$`)

// connectionsEnded are the values that are not zero.
func (w *world) connectionsEnded() map[string]string {
	w.t.Helper()
	got := map[string]string{}
	for _, m := range endedSeries.FindAllStringSubmatch(w.scrape(), -1) {
		got[m[1]] = m[2]
	}
	return got
}

func TestConnectionsThatEndAreCountedByWhatTheyWereAt(t *testing.T) {
	const livez, last = "GET /livez HTTP/1.1\r\nHost: x\r\n", "Connection: close\r\n\r\n"
	slow := func(s *setup) { s.opts.Limits.ReadHeaderTimeout = 500 * time.Millisecond }
	// sends writes each text when the one before it has its answer, and waits for the end.
	sends := func(texts ...string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			conn := w.dial()
			for i, text := range texts {
				if i > 0 && readAnswer(conn) != http.StatusOK {
					t.Fatal("no answer came")
				}
				_, _ = io.WriteString(conn, text)
			}
			ended(t, conn)
		}
	}
	leaves := func(text string) func(*testing.T, *world) {
		return func(_ *testing.T, w *world) {
			conn := w.dial()
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
	for name, c := range map[string]struct {
		during string
		change func(*setup)
		tls    bool
		act    func(t *testing.T, w *world)
	}{
		"nothing was sent":                      {during: "new", act: leaves("")},
		"nothing was sent in time":              {during: "new", change: slow, act: sends("")},
		"a TLS handshake that failed":           {during: "new", tls: true, act: sends(livez + last)},
		"a header that is too large":            {during: "header", act: sends(livez + "X-Big: " + strings.Repeat("x", 40<<10) + "\r\n\r\n")},
		"a header that is too slow":             {during: "header", change: slow, act: sends(livez)},
		"a header that is malformed":            {during: "header", act: sends("GET / HTTP/1.1\r\nHost: x\r\n: nameless\r\n\r\n")},
		"a request that net/http refuses":       {during: "header", act: sends("GET / HTTP/1.1\r\n\r\n")},
		"a caller that left in a header":        {during: "header", act: leaves(livez)},
		"a second header that is too large":     {during: "header", act: sends(livez+"\r\n", livez+"X-Big: "+strings.Repeat("x", 40<<10)+"\r\n\r\n")},
		"a second header that is bad at once":   {during: "idle", act: sends(livez+"\r\n", "GET / HTTP/1.1\r\nHost: x\r\n: nameless\r\n\r\n")},
		"a second header that stops at once":    {during: "idle", change: slow, act: sends(livez+"\r\n", livez)},
		"a connection that idled for too long":  {during: "idle", change: func(s *setup) { s.opts.Limits.IdleTimeout = 50 * time.Millisecond }, act: sends(livez + "\r\n")},
		"a request":                             {during: "request", act: sends(livez + last)},
		"a second request":                      {during: "request", act: sends(livez+"\r\n", livez+last)},
		"a request that was refused":            {during: "request", act: sends("GET " + demo + "log HTTP/1.1\r\nHost: x\r\n" + last)},
		"a caller that left before its answer":  {during: "request", act: leaves(authorized("GET", demo+"proxy/hold") + "\r\n")},
		"a request over TLS":                    {during: "request", tls: true, act: overTLSSends("http/1.1", livez+last)},
		"a header over TLS that is malformed":   {during: "header", tls: true, act: overTLSSends("http/1.1", "GET\r\n\r\n")},
		"HTTP/2 that is none":                   {during: "http2", tls: true, act: overTLSSends("h2", livez+last)},
		"an upgrade is none, the request after": {during: "request", act: upgradesFirst(sends(livez + last))},
		"HTTP/2 with a request": {during: "http2", tls: true, act: func(t *testing.T, w *world) {
			conn := dialH2(t, strings.TrimPrefix(w.url, "http://"), 0)
			id, err := conn.request(true, plain("GET", "/livez")...)
			if got := conn.answer(id); err != nil || got != "200" {
				t.Errorf("got %s, %v", got, err)
			}
			_ = conn.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, holderOrEcho(), func(s *setup) {
				if c.tls {
					overTLS(t)(s)
				}
				if c.change != nil {
					c.change(s)
				}
			})
			c.act(t, w)
			eventually(t, "an end is counted", func() bool { return len(w.connectionsEnded()) > 0 })
			if diff := cmp.Diff(map[string]string{c.during: "1"}, w.connectionsEnded()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// overTLSSends is a caller that speaks a protocol by TLS, or says so.
func overTLSSends(protocol, text string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		conn := tls.Client(w.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		_, _ = io.WriteString(conn, text)
		ended(t, conn)
	}
}

// upgradesFirst has another connection upgraded before, which ends.
func upgradesFirst(then func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		conn := w.dial()
		switched(t, conn, demo+"proxy/echo", "")
		_ = conn.CloseWrite()
		ended(t, conn)
		then(t, w)
	}
}

// holderOrEcho is a holder with a WebSocket.
func holderOrEcho() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/echo", switcher("", func(conn net.Conn, in *bufio.Reader) { _, _ = io.Copy(conn, in) }))
	mux.Handle("/", holder())
	return mux
}
