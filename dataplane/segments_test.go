// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/rawconn/rawconntest"
)

// net/http writes an answer that is larger than its buffer in two parts, and the client's header
// comes in a buffer of its own: three segments, each of which wakes the caller. The kernel waits for
// 200 ms only, so a machine that stands still meanwhile has further tries.
func TestAnAnswerThatIsThereLeavesAsOne(t *testing.T) {
	body := strings.Repeat("x", 20<<10)
	w := newWorld(t, rawAnswer(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
	conn := w.dial()
	in := bufio.NewReader(conn)
	segments := uint32(0)
	for range 10 {
		before := rawconntest.Info(t, conn).Data_segs_in
		_, _ = io.WriteString(conn, authorized("GET", demo+"proxy/")+"\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
		if segments = rawconntest.Info(t, conn).Data_segs_in - before; segments == 1 {
			return
		}
	}
	t.Errorf("%d segments came, not 1", segments)
}

// A pod that makes an answer slowly: what it has made must not wait for the rest, however little it is.
func TestPartOfAnAnswerDoesNotWaitForTheRest(t *testing.T) {
	for _, c := range []struct {
		kind string
		part int
	}{{"application/octet-stream", 10000}, {"application/octet-stream", 100}, {"text/event-stream", 10}} {
		kind, part := c.kind, c.part
		t.Run(fmt.Sprintf("%d bytes of %s", part, kind), func(t *testing.T) {
			rest := make(chan struct{})
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Length", strconv.Itoa(2*part))
				_, _ = w.Write(make([]byte, part))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-rest:
				case <-r.Context().Done():
				}
				_, _ = w.Write(make([]byte, part))
			}))
			conn := w.dial()
			_, _ = io.WriteString(conn, authorized("GET", demo+"proxy/")+"\r\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, res.Body, int64(part)); err != nil {
				t.Fatalf("the first part did not come: %v", err)
			}
			close(rest)
			if n, err := io.Copy(io.Discard, res.Body); err != nil || n != int64(part) {
				t.Errorf("of the rest %d bytes came, %v", n, err)
			}
		})
	}
}
