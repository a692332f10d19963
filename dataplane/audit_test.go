// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/respond"
	"github.com/sandbar-dev/sandbar/tenant"
)

// closableBuffer is where tests let the audit log go.
type closableBuffer struct{ syncBuffer }

func (*closableBuffer) Close() error { return nil }

// lines decodes what was written; a line that is no JSON, or has a field that the documentation
// does not, fails the test.
func (b *closableBuffer) lines(t *testing.T) []record.AuditLine {
	t.Helper()
	lines, err := record.ReadAuditLines(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// audited is a world with an audit log. The admin is known by name.
func audited(t *testing.T, backend http.Handler, changes ...func(*setup)) (*world, *closableBuffer) {
	t.Helper()
	out := &closableBuffer{}
	w := newWorld(t, backend, append(changes, func(s *setup) { s.opts.AuditLog, s.opts.auditOut = "test", out })...)
	w.kcp.who.set(adminToken, authenticationv1.UserInfo{Username: "alice", UID: "u-1", Groups: []string{"devs", "system:authenticated"}})
	return w, out
}

func TestAuditSaysWhoDidWhat(t *testing.T) {
	w, out := audited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Audit-Id", "the pod's own")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "done")
	}))
	res, _ := w.do("POST", "/dataplane/clusters/root:acme:dev/sandboxrunners/demo/components/api/restart", adminToken, strings.NewReader("12345"))
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	got := out.lines(t)
	var want record.AuditLine
	if err := json.Unmarshal([]byte(`{"schema":"audit.sandbar.dev/v1","stage":"end",
		"user":{"name":"alice","uid":"u-1","groups":["devs","system:authenticated"],"authenticatedBy":"token"},
		"sourceIPs":["127.0.0.1"],"workspace":"root:acme:dev","cluster":"cluster1",
		"object":{"group":"sandbar.dev","version":"v1alpha1","resource":"sandboxrunners","namespace":"default","name":"demo","uid":"uid-demo","component":"api"},
		"verb":"restart","method":"POST","kubernetesVerb":"create","code":202,"bytesIn":5,"bytesOut":4}`), &want); err != nil {
		t.Fatal(err)
	}
	ignored := cmpopts.IgnoreFields(record.AuditLine{}, "Time", "ID", "DurationSeconds")
	if diff := cmp.Diff([]record.AuditLine{want}, got, ignored); diff != "" {
		t.Fatal(diff)
	}
	if got[0].DurationSeconds <= 0 || time.Since(got[0].Time) > time.Minute || len(got[0].ID) != 32 {
		t.Errorf("time, duration or id is wrong: %+v", got[0])
	}
	if ids := res.Header.Values("Audit-Id"); len(ids) != 1 || ids[0] != got[0].ID {
		t.Errorf("the caller was told %q, the line is %s", ids, got[0].ID)
	}
}

// Which of a pod's ports was used is the caller's choice, and the right to proxy is one for all.
func TestTheLinesNameThePortThatTheCallerNamed(t *testing.T) {
	w, out := audited(t, http.NotFoundHandler(), podVerbs)
	w.do("GET", demo+"ports/1/proxy", adminToken, nil)
	w.do("POST", demo+"sync", adminToken, nil)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if lines := out.lines(t); len(lines) != 2 || lines[0].Object.Port != "1" || lines[1].Object.Port != "" {
		t.Errorf("the lines are %s", out.String())
	}
	if logs := w.logs.String(); strings.Count(logs, `"port":"1"`) != 1 || strings.Count(logs, `"port"`) != 1 {
		t.Errorf("the access lines are %s", logs)
	}
}

func TestAuditOfRefusals(t *testing.T) {
	w, out := audited(t, http.NotFoundHandler(), func(s *setup) { s.opts.Limits.BodyBytes = 10 })
	w.kcp.grant("viewer", "get sandboxrunners")
	w.kcp.who.set("viewer", authenticationv1.UserInfo{Username: "victor"})
	w.kcp.grant("nameless", "*")
	w.kcp.who.change(func() { w.kcp.who.nameless = map[string]bool{"nameless": true} })
	const admin = "alice"
	for _, c := range []struct {
		name, method, path, token, body string
		code                            int
		user, unknown, object           string
		reason                          string
	}{
		{"no token", "GET", demo + "log", "", "", 401, "", record.UnknownNoIdentity, "demo", refusal.CauseNoIdentity},
		{"a token that kcp does not know", "GET", demo + "log", "bad", "", 401, "", record.UnknownNoIdentity, "demo", refusal.CauseBadIdentity},
		{"a right that is missing", "POST", demo + "sync", "viewer", "", 403, "victor", "", "demo", refusal.CauseDenied},
		{"a verb that is not there", "GET", demo + "nosuch", adminToken, "", 404, admin, "", "demo", refusal.CauseNoVerb},
		{"a method that the verb does not take", "DELETE", demo + "sync", adminToken, "", 405, admin, "", "demo", refusal.CauseMethod},
		{"a method that nobody knows", "BREW", demo + "sync", adminToken, "", 405, "", record.UnknownNoIdentity, "demo", refusal.CauseMethod},
		{"a path that is none", "GET", "/dataplane/clusters/root:acme/<script>/x\"y/log", adminToken, "", 400, "", record.UnknownNoIdentity, "", refusal.CauseMalformed},
		{"a caller whom kcp does not name", "POST", demo + "sync", "nameless", "", 404, "", record.UnknownNoAnswer, "demo", ""},
		{"a body that is too large", "POST", demo + "sync", adminToken, "eleven bytes", 413, admin, "", "demo", refusal.CauseBodyTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(out.lines(t))
			w.do(c.method, c.path, c.token, strings.NewReader(c.body))
			eventually(t, "the line is written", func() bool { return len(out.lines(t)) > before })
			got := out.lines(t)[before]
			var user, object string
			if got.User != nil {
				user = got.User.Name
			}
			if got.Object != nil {
				object = got.Object.Name
			}
			if got.Code != c.code || got.Reason != c.reason || user != c.user || got.UserUnknown != c.unknown || object != c.object || got.Stage != record.StageEnd {
				t.Errorf("got %+v, user %q", got, user)
			}
		})
	}
	for _, secret := range []string{adminToken, controlToken, "nameless", "script", "BREW", "/x"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in the audit log", secret)
		}
	}
}

func TestAuditOfAStreamHasItsStartAndItsEnd(t *testing.T) {
	w, out := audited(t, switcher("", func(conn net.Conn, in *bufio.Reader) {
		line, _ := in.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
		_, _ = io.Copy(io.Discard, in)
	}))
	conn := w.dial()
	fmt.Fprintf(conn, "GET %sproxy HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n\r\n", demo, adminToken)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	eventually(t, "the start is written", func() bool { return len(out.lines(t)) == 1 })
	fmt.Fprintf(conn, "hello\n")
	if line, _ := in.ReadString('\n'); line != "echo hello\n" {
		t.Fatal(line)
	}
	// The server ends with the stream open: its last line must be in the log all the same.
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	lines := out.lines(t)
	if len(lines) != 2 {
		t.Fatalf("got %d lines: %s", len(lines), out.String())
	}
	start, end := lines[0], lines[1]
	if start.Stage != record.StageStart || !start.Stream || start.Code != 0 || start.User == nil || start.ID != end.ID || res.Header.Get(respond.HeaderAuditID) != start.ID {
		t.Errorf("the start is %+v, the caller was told %s", start, res.Header.Get(respond.HeaderAuditID))
	}
	if end.Stage != record.StageEnd || end.Code != 101 || end.BytesIn != 6 || end.BytesOut != 11 || end.Reason != refusal.CauseDraining {
		t.Errorf("the end is %+v", end)
	}
}

// A WebSocket begins with a GET and asks, but on the verb proxy, for create.
func TestTheLinesNameTheRightThatWasAskedFor(t *testing.T) {
	w, out := audited(t, switcher("", func(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }))
	verbs := []string{"proxy", "echo"}
	for i, verb := range verbs {
		switched(t, w.dial(), demo+verb, "")
		eventually(t, "the start is written", func() bool { return len(out.lines(t)) == i+1 })
	}
	for i, asked := range []string{"get", "create"} {
		if line := out.lines(t)[i]; line.Verb != verbs[i] || line.KubernetesVerb != asked {
			t.Errorf("%s was asked for, the line is %+v", asked, line)
		}
	}
}

// A kcp that is slow to name a caller delays the line and not the answer. It is asked for the line
// where it was not when the request was authorized.
func TestARequestDoesNotWaitForItsCallersName(t *testing.T) {
	w, out := audited(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	hold := make(chan struct{})
	w.kcp.who.change(func() { w.kcp.who.hold = hold })
	w.server.handler.authorizer.OnIdentified(nil)
	for range 3 {
		if res, body := w.do("POST", demo+"sync", adminToken, nil); res.StatusCode != http.StatusOK || body != "ok" {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	if lines := out.lines(t); len(lines) != 0 {
		t.Fatalf("lines were written before kcp has said who it was: %+v", lines)
	}
	close(hold)
	eventually(t, "the lines are written", func() bool { return len(out.lines(t)) == 3 })
	for _, line := range out.lines(t) {
		if line.User == nil || line.User.Name != "alice" {
			t.Errorf("the user is %+v", line.User)
		}
	}
	if n := w.kcp.who.askedIn("root:acme:dev"); n != 1 {
		t.Errorf("kcp was asked %d times for one token", n)
	}
}

// Whose a token is, kcp has said before it was asked what they may do.
func TestALineNeedsNoQuestionOfItsOwn(t *testing.T) {
	w, out := audited(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.do("POST", demo+"sync", adminToken, nil)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if lines := out.lines(t); len(lines) != 1 || lines[0].User == nil || lines[0].User.Name != "alice" || w.kcp.who.asked.Load() != 1 {
		t.Errorf("kcp was asked %d times; the lines are %s", w.kcp.who.asked.Load(), out.String())
	}
}

func TestNobodyIsAskedForWhenNothingIsAudited(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler())
	res, _ := w.do("POST", demo+"sync", adminToken, nil)
	if n := w.kcp.who.askedIn("root:acme:dev"); n != 0 {
		t.Errorf("kcp was asked %d times who calls", n)
	}
	if _, ok := res.Header[respond.HeaderAuditID]; ok {
		t.Error("the answer names a line that there is not")
	}
}

// One caller's refusals must not hide another's.
func TestOneCallersLinesDoNotHideAnothers(t *testing.T) {
	t.Run("a caller is the user, whatever the token, and a stranger the address", func(t *testing.T) {
		w, _ := audited(t, http.NotFoundHandler())
		line := func(token, from string) access.CallerKey {
			x := &exchange{request: request(t, "GET", "/", ""), question: access.Question{Caller: tenant.Bearer(token)}}
			x.request.RemoteAddr = from
			return w.server.handler.auditor.LineOfForTest(&record.Outcome{Request: x.request, Caller: x.question.Caller})
		}
		for _, token := range []string{"one", "two"} {
			w.kcp.who.set(token, authenticationv1.UserInfo{Username: "bob"})
			w.kcp.grant(token)
			w.do("GET", demo+"log", token, nil)
		}
		if line("one", "192.0.2.1:1") != line("two", "192.0.2.2:1") {
			t.Error("two tokens of one user are two callers")
		}
		if line("unknown", "192.0.2.1:1") != line("other", "192.0.2.1:2") || line("unknown", "192.0.2.1:1") == line("unknown", "192.0.2.2:1") {
			t.Error("strangers are not counted by their address")
		}
	})
}

// Anybody can send requests without a token as fast as the network carries them. They must
// neither fill the disk nor hide what others do.
func TestAFloodOfStrangersIsCountedAndNotWritten(t *testing.T) {
	w, out := audited(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	const flood = 2000
	for range flood {
		w.server.handler.ServeHTTP(discard{}, request(t, "GET", demo+"log", ""))
	}
	w.do("POST", demo+"sync", adminToken, nil)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	lines := out.lines(t)
	var dropped uint64
	for _, line := range lines {
		dropped += line.Dropped
	}
	last := lines[len(lines)-1]
	if len(lines) > flood/2 || last.User == nil || last.Dropped == 0 {
		t.Errorf("%d lines; the last is %+v", len(lines), last)
	}
	if uint64(len(lines)-1)+dropped != flood {
		t.Errorf("%d lines and %d dropped ones are not %d requests", len(lines)-1, dropped, flood)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func request(t testing.TB, method, path, token string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.7:4711"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}
