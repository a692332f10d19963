// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

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
	"testing/synctest"
	"time"
)

func newTestLimiter(t *testing.T, change func(*Limits)) *limiter {
	t.Helper()
	var limits Limits
	limits.setDefaults()
	change(&limits)
	l, err := newLimiter(func() *Limits { return &limits })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLimitsInFlight(t *testing.T) {
	type call struct {
		workspace, instance string
		stream              bool
	}
	for name, c := range map[string]struct {
		held    []call
		next    call
		refused string // the cause, or empty
	}{
		"below an instance's limit":                   {[]call{{"w", "i", false}}, call{"w", "i", false}, ""},
		"at an instance's limit":                      {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "i", false}, causeInFlight},
		"another instance of the workspace":           {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "j", false}, ""},
		"at a workspace's limit":                      {[]call{{"w", "i", false}, {"w", "i", false}, {"w", "j", false}}, call{"w", "k", false}, causeInFlight},
		"another workspace":                           {[]call{{"w", "i", false}, {"w", "i", false}, {"w", "j", false}}, call{"v", "k", false}, ""},
		"streams have slots of their own":             {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "i", true}, ""},
		"at an instance's limit of streams":           {[]call{{"w", "i", true}}, call{"w", "i", true}, causeStreams},
		"at a workspace's limit of streams":           {[]call{{"w", "i", true}, {"w", "j", true}}, call{"w", "k", true}, causeStreams},
		"an instance named like a workspace is apart": {[]call{{"i", "x", true}, {"i", "y", true}}, call{"w", "i", true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLimiter(t, func(l *Limits) {
				l.InstanceRequests, l.WorkspaceRequests, l.InstanceStreams, l.WorkspaceStreams = 2, 3, 1, 2
			})
			var releases []func()
			for _, held := range c.held {
				release, refused := l.admit(held.workspace, held.instance, held.stream)
				if refused != nil {
					t.Fatal(refused)
				}
				releases = append(releases, release)
			}
			release, refused := l.admit(c.next.workspace, c.next.instance, c.next.stream)
			if c.refused == "" {
				if refused != nil {
					t.Fatalf("refused: %v", refused)
				}
				releases = append(releases, release)
			} else if refused == nil || refused.cause != c.refused || refused.code != 429 || refused.retryAfter <= 0 {
				t.Errorf("got %+v, want a 429 for %s", refused, c.refused)
			}
			for _, release := range releases {
				release()
				release() // a second call must not free another's slot
			}
			if len(l.inFlight) != 0 {
				t.Errorf("left in memory: %v", l.inFlight)
			}
		})
	}
}

func TestLimitOfRate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Limits)
		named  string
		// others have a rate of their own.
		others []string
	}{
		"a workspace's": {
			func(l *Limits) { l.WorkspaceRate, l.WorkspaceBurst = 10, 3 },
			"the workspace starts more than 10 requests per second (3 at once)",
			[]string{"v/i", "v/w"},
		},
		"an instance's, of which its workspace's others keep theirs": {
			func(l *Limits) { l.InstanceRate, l.InstanceBurst, l.WorkspaceBurst = 10, 3, 5 },
			"the instance gets more than 10 requests per second (3 at once)",
			[]string{"w/j", "w/w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLimiter(t, c.change)
				start := func(workspaceAndInstance string) *refusal {
					workspace, instance, _ := strings.Cut(workspaceAndInstance, "/")
					release, refused := l.admit(workspace, instance, false)
					if refused == nil {
						release()
					}
					return refused
				}
				for range 3 {
					if refused := start("w/i"); refused != nil {
						t.Fatal(refused)
					}
				}
				var refused *refusal
				for range 10 { // which cost nobody anything
					if refused = start("w/i"); refused == nil || refused.cause != causeRate || !strings.Contains(refused.message, c.named) {
						t.Fatalf("got %+v, want a refusal that names the rate", refused)
					}
				}
				for _, other := range c.others {
					if refused := start(other); refused != nil {
						t.Errorf("%s is refused: %v", other, refused)
					}
				}
				time.Sleep(refused.retryAfter)
				if refused := start("w/i"); refused != nil {
					t.Errorf("refused after waiting as told: %v", refused)
				}
			})
		})
	}
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
