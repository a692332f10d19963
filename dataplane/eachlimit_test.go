// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
)

// eachLimit is one limit at its number, and what a caller and an operator see there.
type eachLimit struct {
	limit string
	value int64
	// with are other limits that the case needs.
	with map[string]any
	pod  http.Handler
	tls  bool
	// asleep has the demo asleep.
	asleep bool
	// claims has the workspace have a SandboxTemplate.
	claims bool
	// exceed goes above the limit, and returns what the caller was told; empty where it is told
	// nothing, and exceed then checks itself what else becomes of it.
	exceed func(t *testing.T, w *world) string
	// told is in what the caller is told.
	told string
	// counted is a line of the metrics, as a regular expression.
	counted string
}

// until asks again until it is told code, and returns the message; the number of requests that it
// takes depends on how fast the machine is.
func (w *world) until(code int, token func(i int) string) string {
	w.t.Helper()
	var res *http.Response
	var body string
	i := 0
	eventually(w.t, fmt.Sprintf("%d is answered", code), func() bool {
		i++
		res, body = w.do("POST", demo+"sync", token(i), nil)
		return res.StatusCode == code
	})
	return body
}

// once asks one time; it does not wait for an answer that lasts.
func (w *world) once(method, path, token string, size int) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	_, body := w.do(method, path, token, strings.NewReader(strings.Repeat("x", size)), func(r *http.Request) { *r = *r.WithContext(ctx) })
	return body
}

// holder is a pod that keeps requests to /hold, and writes without end on /big.
func holder() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hold":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/silent":
			<-r.Context().Done()
		case "/big":
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		default:
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
}

// hold opens a request that lasts until the test ends.
func (w *world) hold() {
	w.t.Helper()
	conn := w.dial()
	_, _ = io.WriteString(conn, authorized("GET", demo+"proxy/hold")+"\r\n")
	if code := readAnswer(conn); code != http.StatusOK {
		w.t.Fatalf("the request that is to last got %d", code)
	}
}

// ended waits for the other side to end a connection; its deadline makes the test fail.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Error("the connection was not ended")
	}
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// untilDenied has a caller without rights ask for one thing after the other until it is too much.
func (w *world) untilDenied() string {
	w.t.Helper()
	w.kcp.grant("stranger")
	var res *http.Response
	var body string
	i := 0
	eventually(w.t, "429 is answered", func() bool {
		i++
		res, body = w.do("POST", fmt.Sprintf("%s%d", demo, i), "stranger", nil)
		return res.StatusCode == http.StatusTooManyRequests
	})
	return body
}

// manyTokens has kcp know many tokens of one user.
func (w *world) manyTokens() func(int) string {
	for i := range 1000 {
		token := fmt.Sprintf("one-of-many-%d", i)
		w.kcp.grant(token, "*")
		w.kcp.who.set(token, authenticationv1.UserInfo{Username: "many"})
	}
	return func(i int) string { return fmt.Sprintf("one-of-many-%d", i) }
}

// untilClaimed claims Sandboxes until it is too much, and nothing is made then.
func untilClaimed(t *testing.T, w *world) string {
	t.Helper()
	var res *http.Response
	var body string
	made := 0
	eventually(t, "429 is answered", func() bool {
		made = len(w.kcp.boxes.names())
		res, body = w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"wait":"0s"}`))
		return res.StatusCode == http.StatusTooManyRequests
	})
	if now := len(w.kcp.boxes.names()); now != made || res.Header.Get("Retry-After") == "" {
		t.Errorf("there were %d Sandboxes, and are %d; Retry-After is %q", made, now, res.Header.Get("Retry-After"))
	}
	return body
}

func sameToken(int) string { return adminToken }

func madeUp(i int) string { return fmt.Sprintf("made-up-%d", i) }

func eachLimits() map[string]eachLimit {
	const livez = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	secondOfTwo := func(_ *testing.T, w *world) string {
		w.hold()
		return w.once("GET", demo+"proxy/hold", adminToken, 0)
	}
	secondStream := func(_ *testing.T, w *world) string {
		w.follow(adminToken)
		return w.once("GET", demo+"log", adminToken, 0)
	}
	secondHeld := func(_ *testing.T, w *world) string {
		first := w.later("POST", demo+"sync", "x")
		w.holds(1)
		defer func() { w.wakeUp(); <-first }()
		return w.once("POST", demo+"sync", adminToken, 0)
	}
	return map[string]eachLimit{
		"requests of an instance":            {limit: "instanceRequests", value: 1, pod: holder(), exceed: secondOfTwo, told: "the instance has 1 requests in flight", counted: `refusals_total{reason="in_flight"} 1`},
		"requests that wait for an instance": {limit: "instanceHeld", value: 1, asleep: true, exceed: secondHeld, told: "1 requests wait for it", counted: `refusals_total{reason="held"} 1`},
		"requests that wait in all":          {limit: "serverHeld", value: 1, asleep: true, exceed: secondHeld, told: "1 requests wait for instances", counted: `refusals_total{reason="held"} 1`},
		"requests of a workspace":            {limit: "workspaceRequests", value: 1, pod: holder(), exceed: secondOfTwo, told: "the workspace has 1 requests in flight", counted: `refusals_total{reason="in_flight"} 1`},
		"streams of an instance":             {limit: "instanceStreams", value: 1, pod: follower(), exceed: secondStream, told: "the instance has 1 streams", counted: `refusals_total{reason="streams"} 1`},
		"streams of a workspace":             {limit: "workspaceStreams", value: 1, pod: follower(), exceed: secondStream, told: "the workspace has 1 streams", counted: `refusals_total{reason="streams"} 1`},
		"the rate of an instance":            {limit: "instanceRate", value: 3, with: map[string]any{"instanceBurst": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, sameToken) }, told: "the instance gets more than 3 requests per second", counted: `refusals_total{reason="rate"} 1`},
		"the burst of an instance":           {limit: "instanceBurst", value: 3, with: map[string]any{"instanceRate": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, sameToken) }, told: "(3 at once)", counted: `refusals_total{reason="rate"} 1`},
		"the rate of a workspace":            {limit: "workspaceRate", value: 3, with: map[string]any{"workspaceBurst": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, sameToken) }, told: "the workspace starts more than 3 requests per second", counted: `refusals_total{reason="rate"} 1`},
		"the burst of a workspace":           {limit: "workspaceBurst", value: 3, with: map[string]any{"workspaceRate": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, sameToken) }, told: "(3 at once)", counted: `refusals_total{reason="rate"} 1`},
		"the rate of claims of a workspace":  {limit: "workspaceClaimRate", value: 3, with: map[string]any{"workspaceClaimBurst": int64(1)}, claims: true, exceed: untilClaimed, told: "more than 3 Sandboxes per second", counted: `refusals_total{reason="claim_rate"} 1`},
		"the burst of claims of a workspace": {limit: "workspaceClaimBurst", value: 3, with: map[string]any{"workspaceClaimRate": int64(1)}, claims: true, exceed: untilClaimed, told: "(3 at once) are claimed in the workspace", counted: `refusals_total{reason="claim_rate"} 1`},
		"the rate of claims of a caller":     {limit: "callerClaimRate", value: 3, with: map[string]any{"callerClaimBurst": int64(1)}, claims: true, exceed: untilClaimed, told: "you claim more than 3 Sandboxes per second", counted: `refusals_total{reason="claim_rate"} 1`},
		"the burst of claims of a caller":    {limit: "callerClaimBurst", value: 3, with: map[string]any{"callerClaimRate": int64(1)}, claims: true, exceed: untilClaimed, told: "(3 at once): send the request again after Retry-After", counted: `refusals_total{reason="claim_rate"} 1`},
		"the rate of denials": {limit: "deniedRate", value: 3, with: map[string]any{"deniedBurst": int64(1)}, exceed: func(_ *testing.T, w *world) string {
			return w.untilDenied()
		}, told: "more than 3 requests per second", counted: `refusals_total{reason="denied_rate"} 1`},
		"the burst of denials": {limit: "deniedBurst", value: 3, with: map[string]any{"deniedRate": int64(1)}, exceed: func(_ *testing.T, w *world) string {
			return w.untilDenied()
		}, told: "(3 at once)", counted: `refusals_total{reason="denied_rate"} 1`},
		"the rate of unknown tokens":  {limit: "unverifiedRate", value: 3, with: map[string]any{"unverifiedBurst": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, madeUp) }, told: "more than 3 tokens per second", counted: `refusals_total{reason="unverified_rate"} 1`},
		"the burst of unknown tokens": {limit: "unverifiedBurst", value: 3, with: map[string]any{"unverifiedRate": int64(1)}, exceed: func(_ *testing.T, w *world) string { return w.until(429, madeUp) }, told: "(3 at once)", counted: `refusals_total{reason="unverified_rate"} 1`},
		"the rate of questions": {limit: "questionRate", value: 3, with: map[string]any{"questionBurst": int64(2)}, exceed: func(_ *testing.T, w *world) string {
			return w.until(429, w.manyTokens())
		}, told: "from you: use fewer tokens", counted: `refusals_total{reason="question_rate"} 1`},
		"the burst of questions": {limit: "questionBurst", value: 3, with: map[string]any{"questionRate": int64(1)}, exceed: func(_ *testing.T, w *world) string {
			return w.untilDenied()
		}, told: "(3 at once)", counted: `refusals_total{reason="question_rate"} 1`},
		"questions of a caller": {limit: "callerQuestions", value: 1, exceed: func(t *testing.T, w *world) string {
			w.received("POST", demo+"sync", "") // whose token it is, is known now
			hold := make(chan struct{})
			w.kcp.set(func() { w.kcp.hold = hold })
			first := make(chan struct{})
			go func() { defer close(first); w.do("PUT", demo+"proxy", adminToken, nil) }()
			hold <- struct{}{} // kcp has the first's question, so it is under way
			told := w.once("PATCH", demo+"proxy", adminToken, 0)
			close(hold)
			<-first
			return told
		}, told: "1 requests from you or your address", counted: `refusals_total{reason="caller_questions"} 1`},
		"questions of an address": {limit: "callerQuestions", value: 1, exceed: func(t *testing.T, w *world) string {
			hold := make(chan struct{})
			w.kcp.who.change(func() { w.kcp.who.holdRoot = hold })
			first := make(chan struct{})
			go func() { defer close(first); w.do("POST", demo+"sync", madeUp(1), nil) }()
			eventually(t, "kcp has the first's question", func() bool { return w.kcp.who.asked.Load() == 1 })
			told := w.once("POST", demo+"sync", madeUp(2), 0)
			close(hold)
			<-first
			return told
		}, told: "1 requests from you or your address", counted: `refusals_total{reason="caller_questions"} 1`},
		"a body of known length": {limit: "bodyBytes", value: 1024, exceed: func(_ *testing.T, w *world) string {
			return w.once("POST", demo+"sync", adminToken, 1025)
		}, told: "larger than 1024 bytes", counted: `refusals_total{reason="body_too_large"} 1`},
		"a body in chunks": {limit: "bodyBytes", value: 1024, exceed: func(_ *testing.T, w *world) string {
			_, body := w.do("POST", demo+"sync", adminToken, io.MultiReader(strings.NewReader(strings.Repeat("x", 1025))))
			return body
		}, told: "larger than 1024 bytes", counted: `refusals_total{reason="body_too_large"} 1`},
		"a header": {limit: "headerBytes", value: 4096, exceed: func(t *testing.T, w *world) string {
			conn := w.dial() // net/http adds 4 KiB of grace, and refuses before a handler runs
			_, _ = io.WriteString(conn, authorized("POST", demo+"sync")+"X-Big: "+strings.Repeat("x", 12<<10)+"\r\n\r\n")
			if code := readAnswer(conn); code != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("got %d", code)
			}
			return ""
		}, counted: `connections_ended_total{during="header"} 1`},
		"connections": {limit: "connections", value: 1, exceed: func(t *testing.T, w *world) string {
			first, second := w.dial(), w.dial()
			_, _ = io.WriteString(first, livez)
			if code := readAnswer(first); code != http.StatusOK {
				t.Fatalf("the first got %d", code)
			}
			_, _ = io.WriteString(second, livez)
			_ = second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := second.Read(make([]byte, 1)); !isTimeout(err) {
				t.Errorf("a second connection was served or closed: %v", err)
			}
			return ""
		}, counted: `connections 1`},
		"connections of an address": {limit: "connectionsPerAddress", value: 1, exceed: func(t *testing.T, w *world) string {
			first, second := w.dial(), w.dial()
			_, _ = io.WriteString(first, livez)
			if code := readAnswer(first); code != http.StatusOK {
				t.Fatalf("the first got %d", code)
			}
			ended(t, second)
			return ""
		}, counted: `refusals_total{reason="connections_per_address"} 1`},
		"streams of an HTTP/2 connection": {limit: "http2Streams", value: 1, tls: true, pod: holder(), exceed: func(t *testing.T, w *world) string {
			conn := dialH2(t, strings.TrimPrefix(w.url, "http://"), 0)
			t.Cleanup(func() { conn.Close() })
			if _, err := conn.request(true, plain("GET", demo+"proxy/hold")...); err != nil {
				t.Fatal(err)
			}
			second, err := conn.request(true, plain("GET", demo+"proxy/hold")...)
			if err != nil {
				t.Fatal(err)
			}
			if got := conn.answer(second); got != "reset" {
				t.Errorf("the second stream got %s", got)
			}
			return ""
		}, counted: `http2_errors_total{error="streams"} 1`},
		"the time for a header": {limit: "readHeaderTimeoutSeconds", value: 1, exceed: func(t *testing.T, w *world) string {
			conn := w.dial()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost:")
			ended(t, conn)
			return ""
		}, counted: `connections_ended_total{during="header"} 1`},
		"the time that a connection idles": {limit: "idleTimeoutSeconds", value: 1, exceed: func(t *testing.T, w *world) string {
			conn := w.dial()
			_, _ = io.WriteString(conn, livez)
			ended(t, conn)
			return ""
		}, counted: `connections_ended_total{during="idle"} 1`},
		"a body that stops": {limit: "stallTimeoutSeconds", value: 1, exceed: func(t *testing.T, w *world) string {
			conn := w.dial()
			_, _ = io.WriteString(conn, authorized("POST", demo+"sync")+"Connection: close\r\nContent-Length: 100\r\n\r\nsome")
			told, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(told), "HTTP/1.1 408 ") {
				t.Errorf("got %q, %v", told, err)
			}
			return string(told)
		}, told: "arrived for 1s", counted: `refusals_total{reason="client_stalled"} 1`},
		"an answer that is not taken": {limit: "stallTimeoutSeconds", value: 1, pod: holder(), exceed: func(_ *testing.T, w *world) string {
			_, _ = io.WriteString(w.dial(), authorized("GET", demo+"proxy/big")+"\r\n")
			return ""
		}, counted: `cuts_total{reason="client_stalled",verb="proxy"} 1`},
		"an answer that is not taken on HTTP/2": {limit: "stallTimeoutSeconds", value: 1, pod: holder(), tls: true, exceed: func(t *testing.T, w *world) string {
			conn := dialH2(t, strings.TrimPrefix(w.url, "http://"), 0)
			t.Cleanup(func() { conn.Close() })
			if _, err := conn.request(true, plain("GET", demo+"proxy/big")...); err != nil {
				t.Fatal(err)
			}
			return ""
		}, counted: `cuts_total{reason="client_stalled",verb="proxy"} 1`},
		"the time for an answer": {limit: "responseTimeoutSeconds", value: 1, pod: holder(), exceed: func(_ *testing.T, w *world) string {
			return w.once("GET", demo+"proxy/silent", adminToken, 0)
		}, told: "within 1s", counted: `refusals_total{reason="pod_timeout"} 1`},
		"a quiet stream": {limit: "streamIdleSeconds", value: 1, pod: echoWebSocket(), exceed: func(t *testing.T, w *world) string {
			conn := w.dial()
			switched(t, conn, demo+"proxy", "")
			ended(t, conn)
			return ""
		}, counted: `cuts_total{reason="stream_idle",verb="proxy"} 1`},
		"a long stream": {limit: "streamDurationSeconds", value: 1, pod: follower(), exceed: func(_ *testing.T, w *world) string {
			<-w.follow(adminToken)
			return ""
		}, counted: `cuts_total{reason="stream_ceiling",verb="log"} 1`},
		"a kcp that is silent": {limit: "kcpToleranceSeconds", value: 1, pod: follower(), exceed: func(t *testing.T, w *world) string {
			stream := w.follow(adminToken)
			w.kcp.set(func() { w.kcp.down = true })
			eventually(t, "the stream is cut", func() bool {
				for _, c := range w.server.handler.live.of("cluster1", "") {
					c.now(time.Now()) // instead of waiting for its next look
				}
				select {
				case <-stream:
					return true
				default:
					return false
				}
			})
			return ""
		}, counted: `cuts_total{reason="kcp_silent",verb="log"} 1`},
	}
}

// Each limit of the InfrastructureProvider: it is set there to a small number, exceeded, and then
// the caller is told the number, where it can be told anything, and the operator's metric counts.
func TestEachLimitHoldsAtItsNumber(t *testing.T) {
	var all limit.Limits
	all.SetDefaults()
	missing := all.ByName()
	delete(missing, "activityIntervalSeconds") // how often something is written; it refuses nobody
	for name, c := range eachLimits() {
		if _, ok := all.ByName()[c.limit]; !ok {
			t.Errorf("%s: there is no limit %s", name, c.limit)
		}
		delete(missing, c.limit)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := map[string]any{c.limit: c.value}
			maps.Copy(limits, c.with)
			pod := c.pod
			if pod == nil {
				pod = recorder()
			}
			w := newWorld(t, pod, func(s *setup) {
				s.provider = append(s.provider, infrastructure(limits, ""))
				if c.asleep {
					asleep(s)
				}
				if c.claims {
					s.provider = append(s.provider, sandboxTemplate())
				}
				if c.tls {
					overTLS(t)(s)
				}
			})
			if c.claims {
				w.addShell()
			}
			if told := c.exceed(t, w); !strings.Contains(told, c.told) {
				t.Errorf("the caller was told %q, which lacks %q", told, c.told)
			}
			number := fmt.Sprintf("sandbar_dataplane_limit{limit=%q} %d\n", c.limit, c.value)
			if !strings.Contains(w.scrape(), number) {
				t.Errorf("the metrics lack %s", number)
			}
			if c.counted == "" {
				return
			}
			line := regexp.MustCompile(`(?m)^sandbar_dataplane_` + regexp.QuoteMeta(c.counted))
			eventually(t, "the metric counts "+c.counted, func() bool { return line.MatchString(w.scrape()) })
		})
	}
	for name := range missing {
		t.Errorf("no case exceeds %s", name)
	}
}
