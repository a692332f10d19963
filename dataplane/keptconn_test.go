// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bufio"
	"io"
	"net/http"
	"testing"
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
