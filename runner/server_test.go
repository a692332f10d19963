// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

func TestOnlyTheTokenOpensAnythingButHealth(t *testing.T) {
	s := startSandbox(t, "", nil)
	for name, test := range map[string]struct {
		method, path string
		tokens       []string
		want         int
	}{
		"health without a token":              {"GET", "/healthz", nil, 200},
		"health with a wrong token":           {"GET", "/healthz", []string{"wrong"}, 200},
		"another method on health":            {"POST", "/healthz", nil, 401},
		"the app's health without a token":    {"GET", "/healthz/app", nil, 200},
		"another method on the app's health":  {"POST", "/healthz/app", nil, 401},
		"what is below the app's health":      {"GET", "/healthz/app/", nil, 401},
		"another method on health with token": {"POST", "/healthz", []string{testToken}, 405},
		"status with the token":               {"GET", "/status", []string{testToken}, 200},
		"status without a token":              {"GET", "/status", nil, 401},
		"readiness without a token":           {"GET", "/readyz", nil, 401},
		"logs without a token":                {"GET", "/logs", nil, 401},
		"files without a token":               {"GET", "/files/a", nil, 401},
		"sync without a token":                {"POST", "/sync", nil, 401},
		"restart without a token":             {"POST", "/restart", nil, 401},
		"an unknown path without a token":     {"GET", "/secret", nil, 401},
		"an unknown path with the token":      {"GET", "/secret", []string{testToken}, 404},
		"a path that is not clean":            {"GET", "/x/../status", []string{testToken}, 404},
		"a doubled slash":                     {"GET", "//status", []string{testToken}, 404},
		"an empty token":                      {"GET", "/status", []string{""}, 401},
		"the beginning of the token":          {"GET", "/status", []string{testToken[:10]}, 401},
		"more than the token":                 {"GET", "/status", []string{testToken + "x"}, 401},
		"the token in another case":           {"GET", "/status", []string{strings.ToUpper(testToken)}, 401},
		"the token twice":                     {"GET", "/status", []string{testToken, testToken}, 401},
		"the token after a wrong one":         {"GET", "/status", []string{"wrong", testToken}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(test.method, s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Path = test.path
			r.Header[TokenHeader] = test.tokens
			response, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("the status is %d, want %d", response.StatusCode, test.want)
			}
			var e apiError
			if err := json.NewDecoder(response.Body).Decode(&e); err != nil {
				t.Errorf("the body is not JSON: %v", err)
			}
			if test.want >= 400 && (e.Code == "" || e.Message == "" || strings.Contains(e.Message, testToken)) {
				t.Errorf("the error is %+v, want a code and a message without the token", e)
			}
		})
	}
}

func TestOtherMethodsAreRefusedWithTheOneThatIsAllowed(t *testing.T) {
	s := startSandbox(t, "", nil)
	for path, allowed := range map[string]string{
		"/healthz": "GET", "/healthz/app": "GET", "/readyz": "GET", "/status": "GET", "/logs": "GET", "/files": "GET", "/files/a": "GET", "/changes": "GET", "/sync": "POST", "/restart": "POST", "/exec": "GET",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "NONSENSE"} {
			if method == allowed {
				continue
			}
			response := s.do(method, path, "")
			_ = response.Body.Close()
			if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != allowed {
				t.Errorf("%s %s answered %d and Allow %q, want 405 and %s", method, path,
					response.StatusCode, response.Header.Get("Allow"), allowed)
			}
		}
	}
}

func TestTheAppDoesNotInheritTheTokenAndKnowsItsPort(t *testing.T) {
	s := startSandbox(t, "env; echo end; exec sleep 1000", func(c *Config) {})
	await(t, s.lines(""), "end")
	_, env := s.call("GET", "/logs", "")
	if strings.Contains(env, "SANDBAR_") || strings.Contains(env, testToken) {
		t.Errorf("the app's environment has the runner's part:\n%s", env)
	}
	if !strings.Contains(env, "\nPORT=3000\n") {
		t.Errorf("the app's environment has no PORT:\n%s", env)
	}
}

func TestRestartAnswersWithTheNewProcess(t *testing.T) {
	s := startSandbox(t, "echo started; exec sleep 1000", nil)
	await(t, s.lines(""), "started")
	old := callJSON[statusReply](s, "GET", "/status", "", 200).PID
	reply := callJSON[restartReply](s, "POST", "/restart", "", 200)
	now := callJSON[statusReply](s, "GET", "/status", "", 200)
	if !reply.Restarted || reply.PID == old || reply.PID != now.PID || reply.Attempt != 2 {
		t.Errorf("the reply is %+v, the PID was %d and is %d", reply, old, now.PID)
	}
	for _, timeout := range []string{"never", "0s", "-1s", "10h"} {
		callJSON[apiError](s, "POST", "/restart?timeout="+timeout, "", http.StatusBadRequest)
	}
}

func TestARestartThatTakesTooLongIsReportedAndGoesOn(t *testing.T) {
	s := startSandbox(t, `trap 'sleep 0.5; exit' TERM; echo started; while :; do sleep 0.01; done`, nil)
	lines := s.lines("")
	await(t, lines, "started")
	if e := callJSON[apiError](s, "POST", "/restart?timeout=10ms", "", http.StatusGatewayTimeout); e.Code != "RestartTimeout" {
		t.Errorf("the code is %s", e.Code)
	}
	await(t, lines, "started")
}

func TestReadinessFollowsTheAppsPort(t *testing.T) {
	app, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := startSandbox(t, "", func(c *Config) { c.Port = app.Addr().(*net.TCPAddr).Port })
	if status, body := s.call("GET", "/readyz", ""); status != 200 {
		t.Errorf("with a listening app: %d %s, want 200", status, body)
	}
	if st := callJSON[statusReply](s, "GET", "/status", "", 200); !st.PortReachable || st.PortMessage != "" {
		t.Errorf("with a listening app the status says %v %q", st.PortReachable, st.PortMessage)
	}
	_ = app.Close()
	if e := callJSON[apiError](s, "GET", "/readyz", "", 503); e.Code != "NotReady" {
		t.Errorf("without a listening app the code is %s", e.Code)
	}
}

func TestAnAppThatDoesNotStayUpIsToldToTheKubelet(t *testing.T) {
	s := startSandbox(t, `test -e ok && exec sleep 1000; echo ended; exit 3`, nil)
	lines := s.lines("")
	for range 3 { // the third attempt tells that the second has been counted
		await(t, lines, "ended")
	}
	if status, body := s.call("GET", "/healthz/app", ""); status != 200 {
		t.Errorf("with an empty workspace: %d %s, want 200: there is nothing that could run", status, body)
	}
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"a","content":""}]}`, 200)
	if e := callJSON[apiError](s, "GET", "/healthz/app", "", 503); e.Code != "AppCrashing" || e.Message != "the app exited with code 3" {
		t.Errorf("the answer is %+v", e)
	}
	if status, body := s.call("GET", "/healthz", ""); status != 200 {
		t.Errorf("the runner itself: %d %s, want 200", status, body)
	}
	if st := callJSON[statusReply](s, "GET", "/status", "", 200); !st.Crashing {
		t.Errorf("the status does not say that the app is crashing: %+v", st)
	}
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"ok","content":""}],"restart":"auto"}`, 200)
	if status, body := s.call("GET", "/healthz/app", ""); status != 200 {
		t.Errorf("after a sync with restart: %d %s, want 200", status, body)
	}
}

func TestAnAppOnTheLoopbackAddressIsToldWhatToDo(t *testing.T) {
	if outsideAddress() == "" {
		t.Skip("this machine has no address but the loopback's")
	}
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if ok, message := probe(t.Context(), app.Addr().(*net.TCPAddr).Port); ok || !strings.Contains(message, "0.0.0.0") {
		t.Errorf("the probe says %v %q, want the remedy", ok, message)
	}
}

func TestTheRunnerStopsTheAppAndLetsFollowsHaveItsLastWords(t *testing.T) {
	s := startSandbox(t, `trap 'echo bye; exit' TERM; echo hello; while :; do sleep 0.01; done`, nil)
	response := s.do("GET", "/logs?follow&stream=stdout", "") // the shell may say on stderr who was terminated
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	if line, err := body.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("the first line is %q, %v", line, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	// The answer must end as a whole one: a connection that is cut is an error here.
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "bye\n" {
		t.Errorf("the last words are %q, %v; want bye and the end", rest, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the runner ended with %v", err)
	}
}

func TestAPanicIsAnsweredAndDoesNotEndTheRunner(t *testing.T) {
	var log lockedBuffer
	s := newServer(server{config: Config{Tokens: tokensOf(t, testToken)}, logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.routes["/panic"] = route{make(chan struct{}, 1), map[string]handler{
		http.MethodGet: func(http.ResponseWriter, *http.Request) error { panic("the body said hunter2") },
	}}
	for range 2 { // twice: the slot must be free again
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/panic", nil)
		r.Header.Set(TokenHeader, testToken)
		s.ServeHTTP(w, r)
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("the answer is %d %s, want 500 and no detail", w.Code, w.Body)
		}
	}
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "TestAPanic") {
		t.Errorf("the log is %s, want the stack and not the value", text)
	}
}

func TestMoreRequestsThanThereAreSlotsAreTurnedAway(t *testing.T) {
	s := newServer(server{config: Config{Tokens: tokensOf(t, testToken)}, logger: slog.New(slog.DiscardHandler), ring: ringlog.New(0)})
	for path, slots := range map[string]int{"/status": maxCalls, "/logs": maxLogs, "/sync": maxSyncs, "/files": maxReads, "/changes": maxWatches, "/exec": maxExecs} {
		target := s.routes[path]
		for range slots {
			select {
			case target.slots <- struct{}{}:
			default:
				t.Fatalf("%s has fewer than %d slots", path, slots)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(slices.Collect(maps.Keys(target.methods))[0], path, nil)
		r.Header.Set(TokenHeader, testToken)
		s.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s answered %d, want 429 with Retry-After", path, w.Code)
		}
	}
}
