// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Invariant 3: the caller's token goes nowhere but to kcp; and the control token goes to control
// verbs alone. All that could carry them is searched: what the pods received, every answer, the
// log at its most verbose, and the metrics, through good requests and failing ones.
func TestTokensAreFoundNowhere(t *testing.T) {
	var mu sync.Mutex
	var pods strings.Builder
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		token := r.Header.Get(headers.ControlToken)
		r.Header.Del(headers.ControlToken)
		mu.Lock()
		fmt.Fprintf(&pods, "%s %s %v %s\n", r.Method, r.RequestURI, r.Header, body)
		if strings.HasPrefix(r.RequestURI, "/preview") && token != "" {
			t.Errorf("proxy got the control token")
		}
		mu.Unlock()
		switch {
		case strings.Contains(r.RequestURI, "garbage"):
			// A hostile pod says what it knows where our errors might quote it.
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(conn, "%s\r\n\r\n", token)
			conn.Close()
		case r.Header.Get("Upgrade") != "":
			switcher("", func(net.Conn, *bufio.Reader) {}).ServeHTTP(w, r)
		}
	}), func(s *setup) {
		s.apiServer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(conn, "%s\r\n\r\n", r.Header.Get("Authorization")) // net/http's error quotes it
			conn.Close()
		})
	})
	w.kcp.grant("secret-of-a-member-77aa")
	answers := &strings.Builder{}
	tokens := []string{adminToken, "secret-of-a-member-77aa", "secret-that-kcp-does-not-know-88bb"}
	for _, token := range tokens {
		for _, path := range []string{"log", "sync", "proxy/preview", "status", "nosuch", "proxy/garbage", "sync/garbage", "echo", "podlog"} {
			for _, method := range []string{"GET", "POST", "TRACE"} {
				res, body := w.do(method, demo+path, token, strings.NewReader("x"))
				fmt.Fprintln(answers, res.Header, body)
			}
		}
		conn := w.dial()
		fmt.Fprintf(conn, "GET %sproxy/preview HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: %s%s, chat\r\n\r\n",
			demo, access.BearerProtocolPrefix, base64.RawURLEncoding.EncodeToString([]byte(token)))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(answers, res.Header)
		conn.Close()
	}
	w.kcp.set(func() { w.kcp.down = true })
	res, body := w.do("DELETE", demo+"proxy", adminToken, nil)
	fmt.Fprintln(answers, res.Header, body)
	w.kcp.Close()
	res, body = w.do("PATCH", demo+"proxy", adminToken, nil)
	fmt.Fprintln(answers, res.Header, body)

	scraped, err := w.client.Get(w.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer scraped.Body.Close()
	metrics, err := io.ReadAll(scraped.Body)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(pods.String(), "/preview") || !strings.Contains(w.logs.String(), "pod_bad_answer") || !strings.Contains(string(metrics), "sandbar_dataplane_requests_total") {
		t.Fatal("the requests did not reach what is searched")
	}
	for place, text := range map[string]string{
		"pods": pods.String(), "answers": answers.String(), "log": w.logs.String(), "metrics": string(metrics),
	} {
		for _, token := range append(tokens, controlToken, "runtime-credential", "the-provider's-own") {
			for _, form := range []string{token, base64.RawURLEncoding.EncodeToString([]byte(token)), base64.StdEncoding.EncodeToString([]byte(token))} {
				if strings.Contains(text, form) {
					t.Errorf("%q is in the %s", form, place)
				}
			}
		}
	}
	for _, workspace := range []string{"acme", "cluster1", string(demoID.UID), demoID.Namespace()} {
		if strings.Contains(string(metrics), workspace) {
			t.Errorf("%q is in the metrics", workspace)
		}
	}
}

func TestSecretsPrintAsNothing(t *testing.T) {
	var log strings.Builder
	x := struct {
		Caller tenant.Caller
		Q      access.Question
	}{tenant.Bearer("hunter2"), access.Question{Caller: tenant.Bearer("hunter2")}}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "caller", x.Caller, "all", x)
	for _, text := range []string{
		fmt.Sprint(x.Caller), fmt.Sprintf("%v %+v %#v %s", x.Caller, x.Caller, x.Caller, x.Caller),
		fmt.Sprintf("%+v %#v", x.Q, x.Q), log.String(),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("printed: %s", text)
		}
	}
}

func TestMetricLabelsAreEnumerations(t *testing.T) {
	w := newWorld(t, recorder())
	for i := range 20 {
		w.do("GET", fmt.Sprintf("/dataplane/clusters/w%d/r%d/n%d/v%d", i, i, i, i), adminToken, nil)
		w.do("GET", fmt.Sprintf("%sv%d", demo, i), adminToken, nil)
		w.do(fmt.Sprintf("M%d", i), demo+"log", adminToken, nil)
	}
	w.do("GET", demo+"log", adminToken, nil)
	rec := httptest.NewRecorder()
	w.server.metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var series int
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, "sandbar_dataplane_requests_total") {
			series++
		}
	}
	// other/other/403, other/sandboxrunners/404, log/sandboxrunners/405 and /200.
	if series > 5 {
		t.Errorf("%d series:\n%s", series, rec.Body.String())
	}
}
