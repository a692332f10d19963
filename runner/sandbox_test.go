// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lateAfter is when a test gives up on a real process.
const lateAfter = 2 * time.Minute

// sandbox is a running runner with a real app.
type sandbox struct {
	t      testing.TB
	url    string
	dir    string
	client *http.Client
	log    *lockedBuffer
	// stop ends the runner and returns what Run returned.
	stop func() error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startSandbox(t testing.TB, command string, change func(*Config)) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: filepath.Join(t.TempDir(), "workspace"), log: &lockedBuffer{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	config, err := ConfigFromEnv(append(os.Environ(),
		"SANDBAR_CONTROL_TOKEN="+testToken, "SANDBAR_WORKDIR="+s.dir, "SANDBAR_START_COMMAND="+command))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() { ended <- run(ctx, config, logger, listener) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the runner ended with %v", err)
		}
		transport.CloseIdleConnections()
		if strings.Contains(s.log.String(), testToken) {
			t.Error("the runner's log contains the token")
		}
	})
	return s
}

// do makes a request with the token. The caller closes the body.
func (s *sandbox) do(method, path, body string) *http.Response {
	s.t.Helper()
	response, err := s.client.Do(s.request(method, path, body))
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// request makes a request with the token.
func (s *sandbox) request(method, path, body string) *http.Request {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the test's own text is no URL
	}
	r.Header.Set(TokenHeader, testToken)
	return r
}

// call makes a request and returns the status and the body.
func (s *sandbox) call(method, path, body string) (int, string) {
	s.t.Helper()
	response := s.do(method, path, body)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// callJSON makes a request, checks the status and decodes the body.
func callJSON[T any](s *sandbox, method, path, body string, status int) T {
	s.t.Helper()
	var reply T
	got, text := s.call(method, path, body)
	if err := json.Unmarshal([]byte(text), &reply); err != nil || got != status {
		s.t.Fatalf("%s %s answered %d %s (%v), want %d and JSON", method, path, got, text, err, status)
	}
	return reply
}

// lines follows the log; the channel ends with the answer.
func (s *sandbox) lines(query string) <-chan string {
	s.t.Helper()
	response := s.do(http.MethodGet, "/logs?follow=true&"+query, "")
	lines := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(lines)
		defer response.Body.Close()
		for scan := bufio.NewScanner(response.Body); scan.Scan(); {
			select {
			case lines <- scan.Text():
			case <-done:
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = s.stop() // ends the follow
		close(done)
	})
	return lines
}

// await returns when a line is want.
func await(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	late := time.After(lateAfter)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the follow ended before the line %q", want)
			}
			if line == want {
				return
			}
		case <-late:
			t.Fatalf("the line %q did not come", want)
		}
	}
}
