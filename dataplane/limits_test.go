// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheServersOwnLimits(t *testing.T) {
	t.Run("a header above 32 KiB is refused", func(t *testing.T) {
		w := newWorld(t, recorder())
		res, _ := w.do("GET", demo+"log", adminToken, nil, func(r *http.Request) { r.Header.Set("X-Big", strings.Repeat("x", 40<<10)) })
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	t.Run("a header that never ends is cut", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.ReadHeaderTimeout = 50 * time.Millisecond })
		conn := w.dial()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost:")
		if data, err := io.ReadAll(conn); err != nil {
			t.Errorf("not cut: %q %v", data, err)
		}
	})
	t.Run("a body that stops is 408", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.StallTimeout = 50 * time.Millisecond })
		conn := w.dial()
		fmt.Fprintf(conn, "POST %ssync HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nsome", demo, adminToken)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		wantStatus(t, res, string(body), http.StatusRequestTimeout)
	})
	t.Run("a refusal does not wait for a body that never arrives", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.StallTimeout = 50 * time.Millisecond })
		conn := w.dial()
		fmt.Fprintf(conn, "POST %ssync HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nsome", demo)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		wantStatus(t, res, string(body), http.StatusUnauthorized)
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection lives on: %v", err)
		}
	})
	t.Run("a client that takes nothing is cut, and the pod learns of it", func(t *testing.T) {
		gone := make(chan struct{})
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(gone)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}), func(s *setup) { s.opts.Limits.StallTimeout = 100 * time.Millisecond })
		conn := w.dial()
		fmt.Fprintf(conn, "GET %slog HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", demo, adminToken)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Fatal("still sending to a client that takes nothing")
		}
	})
	t.Run("a deadline does not outlive its request", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.StallTimeout = 100 * time.Millisecond })
		conn := w.dial()
		in := bufio.NewReader(conn)
		for range 3 {
			fmt.Fprintf(conn, "POST %ssync HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1\r\n\r\nx", demo, adminToken)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("the kept connection broke: %v", err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			time.Sleep(150 * time.Millisecond) // longer than the limit: real connections have no fake clock
		}
	})
	t.Run("connections above the limit wait", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.Connections = 2 })
		w.client.CloseIdleConnections()
		first, second, third := w.dial(), w.dial(), w.dial()
		ask := func(c net.Conn) { _, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") }
		ask(first)
		_, _ = first.Read(make([]byte, 1))
		ask(second)
		_, _ = second.Read(make([]byte, 1))
		ask(third)
		_ = third.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := third.Read(make([]byte, 1)); err == nil {
			t.Fatal("a third connection was served")
		}
		first.Close()
		_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := third.Read(make([]byte, 1)); err != nil {
			t.Errorf("the third was not served when there was a slot: %v", err)
		}
	})
}

func TestOnlyALackOfProgressEndsABodyOrAnAnswer(t *testing.T) {
	for version, change := range map[int]func(*setup){1: func(*setup) {}, 2: overTLS(t)} {
		t.Run(fmt.Sprintf("an answer by HTTP/%d that pauses for longer than a client may stall is not cut", version), func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range 2 {
					_, _ = io.WriteString(w, "line\n")
					_ = http.NewResponseController(w).Flush()
					<-time.After(1200 * time.Millisecond) // an HTTP/2 write may wait for a read first, and so for twice the limit
				}
			}), change, func(s *setup) { s.opts.Limits.StallTimeout = 500 * time.Millisecond })
			if version == 2 {
				transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				t.Cleanup(transport.CloseIdleConnections)
				w.client, w.url = &http.Client{Transport: transport}, strings.Replace(w.url, "http:", "https:", 1)
			}
			res, body := w.do("GET", demo+"log", adminToken, nil)
			if res.ProtoMajor != version || body != strings.Repeat("line\n", 2) {
				t.Errorf("got %s and %q", res.Proto, body)
			}
		})
	}
	t.Run("the server has no limit of its own", func(t *testing.T) {
		w := newWorld(t, recorder())
		if s := w.server.httpServer(nil, w.server.settings.limits()); s.ReadTimeout != 0 || s.WriteTimeout != 0 {
			t.Errorf("the server reads for %v and writes for %v, however long a body or an answer is", s.ReadTimeout, s.WriteTimeout)
		}
	})
}

func TestARefusalForRateSaysWhenToComeBack(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.WorkspaceRate, s.opts.Limits.WorkspaceBurst = 1, 1 })
	w.received("POST", demo+"sync", "")
	res, body := w.do("POST", demo+"sync", adminToken, nil)
	status := wantStatus(t, res, body, http.StatusTooManyRequests)
	if res.Header.Get("Retry-After") != "1" || status.Details == nil || status.Details.RetryAfterSeconds != 1 {
		t.Errorf("Retry-After is %q, details are %+v", res.Header.Get("Retry-After"), status.Details)
	}
}

// The numbers that are private to rooms are compared there.
func TestTheTableOfLimitsHasTheNumbersThatAreNotInTheObject(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "Not in the object", true,
		limitstable.Limit{Name: "a request's path and query together", Number: "24 KiB"},
		limitstable.Limit{Name: "how long a request waits for the placement of a young object; how young that is; such requests", Number: "1 s; 30 s; 1,024"},
		limitstable.Limit{Name: "a bearer token", Number: "16 KiB"},
		limitstable.Limit{Name: "steps of time in which a refusal is answered that hides what exists (401 for an unknown token, 403)", Number: fmt.Sprintf("%d ms", refusalStep.Milliseconds())},
		limitstable.Limit{Name: "the body of the verb `renew`", Number: limitstable.Bytes(maxRenewalBytes), Says: []string{fmt.Sprintf("larger than %d bytes", maxRenewalBytes)}},
		limitstable.Limit{Name: "an `exec` in a pod: arguments, and their bytes together", Number: "1000, 16 KiB"},
		limitstable.Limit{Name: "how long the processes of a command in a pod have to end after its caller has gone, before they are killed; how long those are looked for that have not begun", Number: "2 s; 2 s"},
		limitstable.Limit{Name: "how long the data plane is busy with that; how often at once, in all and for one workspace", Number: "8 s; 64, 16"},
		limitstable.Limit{Name: "what a caller sends before a command has said anything, and is sent again in a container without `env`; containers of which that is known", Number: "256 KiB; 4,096"},
		limitstable.Limit{Name: "one attempt to reach a pod; pods of a Service that one request tries", Number: "3 s; 3"},
		limitstable.Limit{Name: "the header of a pod's answer", Number: "64 KiB, or 256 lines"},
		limitstable.Limit{Name: "the trailer of a pod's answer", Number: "128 fields, 4 KiB"},
		limitstable.Limit{Name: "what passes of a pod's answer that refuses an upgrade", Number: "1 MiB"},
		limitstable.Limit{Name: "connections to pods that are kept, of one destination and of all", Number: "256, 4,096"},
		limitstable.Limit{Name: "how long a request waits for an app to listen whose pod is ready after a wake", Number: "10 s"},
		limitstable.Limit{Name: "lines of the audit log of unknown callers, and of requests refused to known ones", Number: "20 and 100 per second; a quarter of these of one address or one caller"},
	)
}

func TestTheTableOfLimitsHasTheNumberOfPasswords(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "The provider's own", false,
		limitstable.Limit{Name: "the verb `password`: time for the runtime cluster's answer", Number: limitstable.Duration(passwordTimeout)},
	)
}
