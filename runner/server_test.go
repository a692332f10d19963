// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lateAfter is when a test gives up on a real process.
const lateAfter = 20 * time.Second

// sandbox is a running runner with a real app.
type sandbox struct {
	t      *testing.T
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

func startSandbox(t *testing.T, command string, change func(*Config)) *sandbox {
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
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set(TokenHeader, testToken)
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
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
		"another method on health with token": {"POST", "/healthz", []string{testToken}, 405},
		"status with the token":               {"GET", "/status", []string{testToken}, 200},
		"status without a token":              {"GET", "/status", nil, 401},
		"readiness without a token":           {"GET", "/readyz", nil, 401},
		"logs without a token":                {"GET", "/logs", nil, 401},
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
		"/healthz": "GET", "/readyz": "GET", "/status": "GET", "/logs": "GET", "/sync": "POST", "/restart": "POST",
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

func TestAnEditIsSyncedRestartsTheAppAndIsSeenInTheLog(t *testing.T) {
	s := startSandbox(t, "cat message.txt; echo; exec sleep 1000", nil)
	lines := s.lines("stream=stdout")
	reply := callJSON[syncReply](s, "POST", "/sync", `{"files":[{"path":"message.txt","content":"first"}],"restart":"auto"}`, 200)
	want := syncReply{Phase: "Synced", Revision: 1, Changed: []string{"message.txt"}, Deleted: []string{}, Restarted: true}
	if diff := cmp.Diff(want, reply, cmp.AllowUnexported(apiError{})); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	await(t, lines, "first")
	callJSON[syncReply](s, "POST", "/sync", `{"files":[{"path":"message.txt","content":"second"}],"restart":"always"}`, 200)
	await(t, lines, "second")
	status := callJSON[statusReply](s, "GET", "/status", "", 200)
	if status.State != supervise.Running || status.PID == 0 || status.Workspace.Revision != 2 || status.StartTime == nil ||
		status.LastExit == nil || status.Logs.NextOffset == 0 || status.Port != 3000 || len(status.Capabilities) == 0 {
		t.Errorf("the status is %+v", status)
	}
}

func TestWhenASyncRestartsTheApp(t *testing.T) {
	const write, same = `{"path":"a","content":"%d"}`, `{"path":"same","content":"x"}`
	s := startSandbox(t, "exec sleep 1000", nil)
	callJSON[syncReply](s, "POST", "/sync", `{"files":[`+same+`]}`, 200)
	for i, test := range []struct {
		name, restart, file string
		want                bool
	}{
		{"no word, changed", `""`, write, false},
		{"never, changed", `"never"`, write, false},
		{"auto, changed", `"auto"`, write, true},
		{"auto, unchanged", `"auto"`, same, false},
		{"always, unchanged", `"always"`, same, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := test.file
			if file == write {
				file = fmt.Sprintf(write, i)
			}
			before := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
			reply := callJSON[syncReply](s, "POST", "/sync", fmt.Sprintf(`{"files":[%s],"restart":%s}`, file, test.restart), 200)
			after := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
			if reply.Restarted != test.want || (after != before) != test.want {
				t.Errorf("restarted is %v, and attempt %d became %d; want %v", reply.Restarted, before, after, test.want)
			}
		})
	}
}

func TestASyncCuresACrashingAppEvenIfNothingChanged(t *testing.T) {
	s := startSandbox(t, "echo up; exit 3", nil)
	await(t, s.lines(""), "up")
	// Until the end of the first attempt has been noticed.
	for late := time.Now().Add(lateAfter); callJSON[statusReply](s, "GET", "/status", "", 200).State != supervise.Backoff; {
		if time.Now().After(late) {
			t.Fatal("the app does not crash")
		}
	}
	if reply := callJSON[syncReply](s, "POST", "/sync", `{"restart":"auto"}`, 200); !reply.Restarted {
		t.Errorf("the reply is %+v, want a restart", reply)
	}
}

func TestWithoutACommandFilesAreSyncedAndARestartIsRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	reply := callJSON[syncReply](s, "POST", "/sync", `{"files":[{"path":"a","content":"1"}],"restart":"always"}`, 200)
	if reply.Restarted || reply.RestartError == nil || reply.RestartError.Code != "NotConfigured" {
		t.Errorf("the reply is %+v, want the reason why nothing was restarted", reply)
	}
	if reply := callJSON[syncReply](s, "POST", "/sync", `{"restart":"auto"}`, 200); reply.Restarted || reply.RestartError != nil {
		t.Errorf("the reply is %+v, want no restart and no error", reply)
	}
	if e := callJSON[apiError](s, "POST", "/restart", "", http.StatusConflict); e.Code != "NotConfigured" {
		t.Errorf("the code is %s, want NotConfigured", e.Code)
	}
	if st := callJSON[statusReply](s, "GET", "/status", "", 200); st.State != supervise.NotConfigured {
		t.Errorf("the state is %s, want NotConfigured", st.State)
	}
}

func TestRefusedSyncs(t *testing.T) {
	s := startSandbox(t, "", func(c *Config) {
		c.SyncBytes, c.Workspace = 1000, workspace.Limits{Files: 2, FileBytes: 100}
	})
	callJSON[statusReply](s, "GET", "/status", "", 200) // the workspace is there
	if err := os.Symlink(t.TempDir(), filepath.Join(s.dir, "link")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"a body above the limit":      {`{"files":[{"path":"a","content":"` + long + `"}]}`, 413, "RequestTooLarge"},
		"a file above the limit":      {`{"files":[{"path":"a","content":"` + long[:101] + `"}]}`, 413, "FileTooLarge"},
		"files above the limit":       {`{"files":[{"path":"a"},{"path":"b"}],"deletePaths":["c"]}`, 413, "TooManyFiles"},
		"a path out of the workspace": {`{"files":[{"path":"a"},{"path":"../b"}]}`, 400, "InvalidPath"},
		"a file twice":                {`{"files":[{"path":"a"},{"path":"a"}]}`, 400, "InvalidBatch"},
		"a body that is no JSON":      {`files`, 400, "MalformedRequest"},
		"a symlink on the way":        {`{"files":[{"path":"link/a"}]}`, 409, "Conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := callJSON[apiError](s, "POST", "/sync", test.body, test.status); e.Code != test.code {
				t.Errorf("the code is %s (%s), want %s", e.Code, e.Message, test.code)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "a")); err == nil {
				t.Error("a part of the batch was applied")
			}
		})
	}
	t.Run("a body of unknown length above the limit", func(t *testing.T) {
		body := io.MultiReader(strings.NewReader(`{"files":[{"path":"a","content":"`), strings.NewReader(long), strings.NewReader(`"}]}`))
		r, err := http.NewRequest("POST", s.url+"/sync", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(TokenHeader, testToken)
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		if response.StatusCode != 413 || !strings.Contains(string(text), "1000 bytes") {
			t.Errorf("the answer is %d %s, want 413 and the limit", response.StatusCode, text)
		}
	})
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
	s := newServer(server{config: Config{Token: hash(t, testToken)}, logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.routes["/panic"] = route{http.MethodGet, make(chan struct{}, 1), func(http.ResponseWriter, *http.Request) error {
		panic("the body said hunter2")
	}}
	for range 2 { // twice: the slot must be free again
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/panic", nil)
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
	s := newServer(server{config: Config{Token: hash(t, testToken)}, logger: slog.New(slog.DiscardHandler), ring: ringlog.New(0)})
	for path, slots := range map[string]int{"/status": maxCalls, "/logs": maxLogs, "/sync": maxSyncs} {
		target := s.routes[path]
		for range slots {
			select {
			case target.slots <- struct{}{}:
			default:
				t.Fatalf("%s has fewer than %d slots", path, slots)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(target.method, path, nil)
		r.Header.Set(TokenHeader, testToken)
		s.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s answered %d, want 429 with Retry-After", path, w.Code)
		}
	}
}
