// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

func TestLogQueries(t *testing.T) {
	ring := ringlog.New(0)
	for _, e := range []struct {
		stream ringlog.Stream
		text   string
	}{{ringlog.Stdout, "one\ntwo\n"}, {ringlog.Stderr, "oops\n"}, {ringlog.Stdout, "three"}} {
		ring.Append(ringlog.Source{Stream: e.stream, Attempt: 1}, time.Now(), []byte(e.text))
	}
	serving := httptest.NewServer(newServer(server{config: Config{Tokens: tokensOf(t, testToken)}, ring: ring}))
	defer serving.Close()
	s := &sandbox{t: t, url: serving.URL, client: serving.Client()}
	for query, want := range map[string]string{
		"":                           "one\ntwo\noops\nthree",
		"follow=false":               "one\ntwo\noops\nthree",
		"tail=2":                     "oops\nthree",
		"tail=0":                     "",
		"tail=100":                   "one\ntwo\noops\nthree",
		"stream=stdout":              "one\ntwo\nthree",
		"stream=stderr":              "oops\n",
		"stream=stdout&tail=2":       "two\nthree",
		"offset=0":                   "one\ntwo\noops\nthree",
		"offset=5":                   "wo\noops\nthree",
		"offset=18":                  "",
		"since=1h":                   "one\ntwo\noops\nthree",
		"since=2100-01-01T00:00:00Z": "",
		"since=1h&tail=1":            "three",
		"something=else":             "one\ntwo\noops\nthree",
	} {
		if status, got := s.call("GET", "/logs?"+query, ""); status != 200 || got != want {
			t.Errorf("%q answered %d %q, want %q", query, status, got, want)
		}
	}
	for query, want := range map[string]int{
		"tail=-1": 400, "tail=x": 400, "since=x": 400, "since=-1h": 400, "follow=x": 400, "timestamps=x": 400,
		"stream=stdin": 400, "offset=-1": 400, "offset=x": 400, "offset=0&tail=1": 400, "offset=19": 416, "format=x": 400,
	} {
		if status, got := s.call("GET", "/logs?"+query, ""); status != want {
			t.Errorf("%q answered %d %q, want %d", query, status, got, want)
		}
	}
	response := s.do("GET", "/logs?tail=2&timestamps", "")
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	first, _, _ := strings.Cut(string(text), " ")
	if _, err := time.Parse(time.RFC3339Nano, first); err != nil || response.Header.Get(logwire.OffsetHeader) != "8" {
		t.Errorf("with timestamps: offset %s, %q", response.Header.Get(logwire.OffsetHeader), text)
	}
}

// Whoever was cut off anywhere goes on from the last record and has every byte once.
func TestRecordsSayWhereToGoOn(t *testing.T) {
	ring := ringlog.New(0)
	for n, text := range []string{"one\n", "tw", "o\xff\n", "oops\n"} {
		ring.Append(ringlog.Source{Stream: []ringlog.Stream{ringlog.Stdout, ringlog.Stderr}[n/3], Attempt: 1}, time.Unix(1, 0), []byte(text))
	}
	serving := httptest.NewServer(newServer(server{config: Config{Tokens: tokensOf(t, testToken)}, ring: ring}))
	defer serving.Close()
	s := &sandbox{t: t, url: serving.URL, client: serving.Client()}
	read := func(query string) (records []logwire.Record) {
		response := s.do("GET", "/logs?format=json&"+query, "")
		defer response.Body.Close()
		if id := response.Header.Get(logwire.IDHeader); id != ring.ID() {
			t.Fatalf("the log has the name %q, want %q", id, ring.ID())
		}
		for d := json.NewDecoder(response.Body); d.More(); {
			var r logwire.Record
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
		return records
	}
	all := read("")
	if text := joined(all); text != "one\ntwo\xff\noops\n" || all[len(all)-1].Stream != "stderr" {
		t.Errorf("the log reads %q, %+v", text, all)
	}
	for n := range all {
		rest := read(fmt.Sprintf("offset=%d", all[n].Next()))
		if got, want := joined(rest), joined(all[n+1:]); got != want {
			t.Errorf("from record %d on the log reads %q, want %q", n, got, want)
		}
	}
	for range 2 * ringlog.MinCapacity / 1000 {
		ring.Append(ringlog.Source{Stream: ringlog.Stdout, Attempt: 1}, time.Now(), []byte(strings.Repeat("x", 999)+"\n"))
	}
	first, _ := ring.Bounds()
	if gap := read("offset=5")[0]; gap.Lost != first-5 || gap.Offset != first || gap.Next() != first {
		t.Errorf("the first record is %+v, want a gap of %d bytes", gap, first-5)
	}
}

func joined(records []logwire.Record) string {
	var text strings.Builder
	for _, r := range records {
		text.Write(r.Data)
	}
	return text.String()
}

func TestALineThatIsWrittenLaterReachesAFollower(t *testing.T) {
	s := startSandbox(t, "", nil)
	response := s.do("GET", "/logs?follow", "") // answers although there is no line
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the status is %d", response.StatusCode)
	}
}

// The app writes far more than the ring and all socket buffers hold while one
// follower reads nothing; it must come to its end nevertheless.
func TestAFollowerThatDoesNotReadDoesNotStallTheAppAndFindsAGap(t *testing.T) {
	s := startSandbox(t, `echo ready; while [ ! -e go ]; do sleep 0.01; done
head -c 50000000 /dev/zero | tr '\0' x | fold -w 999; echo; echo done; exec sleep 1000`, nil)
	await(t, s.lines(""), "ready")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /logs?follow HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", TokenHeader, testToken); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"go"}]}`, 200)
	for late := time.Now().Add(lateAfter); ; {
		if _, last := s.call("GET", "/logs?tail=1", ""); last == "done\n" {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the app was stalled")
		}
	}
	gap := false
	for scan := bufio.NewScanner(response.Body); scan.Scan() && scan.Text() != "done"; {
		gap = gap || strings.HasPrefix(scan.Text(), "[sandbar: gap, ")
	}
	if !gap {
		t.Error("the slow follower came to the end without a gap")
	}
}

// memoryListener accepts one connection, a pipe of memory, whose deadlines keep a
// bubble's time.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { close(l.done); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble serves one connection in a bubble, and hands its other end to test.
func inBubble(t *testing.T, test func(t *testing.T, ring *ringlog.Ring, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := &memoryListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		ring := ringlog.New(0)
		files, err := workspace.Open(t.TempDir(), workspace.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		serving := newServer(server{
			config: Config{Tokens: tokensOf(t, testToken), SyncBytes: defaultSyncBytes},
			logger: slog.New(slog.DiscardHandler), ring: ring, draining: t.Context(), workspace: files,
		}).httpServer()
		ended := make(chan error, 1)
		go func() { ended <- serving.Serve(listener) }()
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		test(t, ring, ours)
		_ = ours.Close()
		_ = serving.Close()
		<-ended
	})
}

func TestAFollowOutlivesEveryTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, ring *ringlog.Ring, conn net.Conn) {
		fmt.Fprintf(conn, "GET /logs?follow HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", TokenHeader, testToken)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(response.Body)
		for range 3 {
			time.Sleep(24 * time.Hour)
			ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), []byte("still here\n"))
			if line, err := body.ReadString('\n'); err != nil || line != "still here\n" {
				t.Fatalf("a day later: %q, %v", line, err)
			}
		}
	})
}

func TestAFollowerThatNeverReadsLosesItsConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, ring *ringlog.Ring, conn net.Conn) {
		fmt.Fprintf(conn, "GET /logs?follow HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", TokenHeader, testToken)
		if _, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil); err != nil {
			t.Fatal(err)
		}
		ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), make([]byte, 1<<20))
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("the connection ended with %v, want its end", err)
		}
	})
}

func TestABodyThatDoesNotComeHoldsAConnectionForABoundedTime(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		want  time.Duration
	}{
		"shorter for a stranger":           {"wrong", strangerTimeout},
		"longer for a caller with a token": {testToken, bodyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *ringlog.Ring, conn net.Conn) {
				began := time.Now()
				fmt.Fprintf(conn, "POST /sync HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: 1000\r\n\r\n{", TokenHeader, test.token)
				if _, err := io.Copy(io.Discard, conn); err != nil {
					t.Errorf("the connection ended with %v, want its end", err)
				}
				if took := time.Since(began); took < test.want || took > test.want+time.Second {
					t.Errorf("the connection was held for %s, want %s", took, test.want)
				}
			})
		})
	}
}
