// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A pod often answers before the goroutine that sends the body has noticed that it is done. To stop
// the body then must not touch the connection: a deadline there ended the context of every later
// request on it, and those were dropped without an answer.
func TestAConnectionIsKeptWhenThePodAnswersAtOnce(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.WorkspaceBurst = 100000 })
	conn := w.dial()
	in := bufio.NewReader(conn)
	for i := range 500 {
		if _, err := io.WriteString(conn, authorized("POST", demo+"sync")+"Content-Length: 1\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("request %d got no answer: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("request %d got %d, %v", i, res.StatusCode, err)
		}
	}
}

// deadlines records the read deadlines that are set on a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

func TestStoppingABodyThatIsWholeLeavesTheConnectionAlone(t *testing.T) {
	for name, whole := range map[string]bool{"a whole body": true, "a body that is still to come": false} {
		t.Run(name, func(t *testing.T) {
			conn := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			x := newExchange(conn, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("x")), time.Minute)
			if whole {
				if _, err := io.Copy(io.Discard, x.request.Body); err != nil {
					t.Fatal(err)
				}
			}
			conn.set = nil
			x.StopBody()
			if past := len(conn.set) > 0; past == whole {
				t.Errorf("stopping set the deadlines %v", conn.set)
			}
			if _, err := x.request.Body.Read(make([]byte, 1)); err == nil && !whole {
				t.Error("a stopped body can be read")
			}
		})
	}
}
