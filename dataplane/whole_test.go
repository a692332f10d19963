// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

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

// A pod that makes a large answer slowly: what it has made must not wait for the rest.
func TestPartOfAnAnswerDoesNotWaitForTheRest(t *testing.T) {
	const part = 10000
	rest := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(2*part))
		_, _ = w.Write(make([]byte, part))
		_ = http.NewResponseController(w).Flush()
		<-rest
		_, _ = w.Write(make([]byte, part))
	}))
	conn := w.dial()
	_, _ = io.WriteString(conn, authorized("GET", demo+"proxy/")+"\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, res.Body, part); err != nil {
		t.Fatalf("the first part did not come: %v", err)
	}
	close(rest)
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != part {
		t.Errorf("of the rest %d bytes came, %v", n, err)
	}
}
