// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestWhoseWordIsTakenForAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		by, forwarded string
		want          []string
	}{
		"a caller's own header is not read":    {access.AuthenticatedByToken, "203.0.113.9", []string{"192.0.2.7"}},
		"a front proxy tells what it saw":      {access.AuthenticatedByRequestHeader, "10.0.0.1, 203.0.113.9", []string{"203.0.113.9", "192.0.2.7"}},
		"a front proxy that tells nothing":     {access.AuthenticatedByRequestHeader, "", []string{"192.0.2.7"}},
		"a front proxy that tells no address":  {access.AuthenticatedByRequestHeader, "203.0.113.9, evil\n{}", []string{"192.0.2.7"}},
		"a front proxy that tells an IPv6 one": {access.AuthenticatedByRequestHeader, "2001:db8::1", []string{"2001:db8::1", "192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Outcome{Request: aRequest(), AuthenticatedBy: c.by}
			if c.forwarded != "" {
				o.Request.Header.Set("X-Forwarded-For", c.forwarded)
			}
			said := newAuditRecord(o, StageEnd, time.Now())
			var line AuditLine
			if err := json.Unmarshal(append(said.appendTo(nil, auditUser{}), '}'), &line); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, line.SourceIPs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAuditLogThatCannotBeOpenedKeepsTheServerFromStarting(t *testing.T) {
	_, err := NewAuditor(Options{AuditLog: filepath.Join(t.TempDir(), "no", "such", "folder", "audit.log")}, nil, NewMetrics("test"))
	if err == nil || !strings.Contains(err.Error(), "opening the audit log") {
		t.Errorf("got %v", err)
	}
}

// At the end of the server a line may still wait for its caller's name.
func TestTheEndWaitsForTheLastLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &buffer{}
		answer := make(chan struct{})
		slowly := func(context.Context, tenant.Caller, string) (authenticationv1.UserInfo, tenant.Answer) {
			<-answer
			return authenticationv1.UserInfo{}, tenant.Answer{}
		}
		a, err := NewAuditor(Options{AuditLog: "test", AuditOut: out}, slowly, NewMetrics("test"))
		if err != nil {
			t.Fatal(err)
		}
		go a.Run()
		o := &Outcome{Request: aRequest(), Caller: tenant.Bearer("token"), Took: time.Second, AuditID: a.Begin()}
		a.Ended(o)
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		synctest.Wait() // close waits now
		close(answer)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if lines := out.lines(t); len(lines) != 1 || lines[0].ID != o.AuditID {
			t.Errorf("the lines are %+v", lines)
		}
	})
}

// A kcp that never answers must not keep the server from ending, nor must an exchange.
func TestTheEndDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := NewAuditor(Options{AuditLog: "test", AuditOut: &buffer{}}, nil, NewMetrics("test"))
		if err != nil {
			t.Fatal(err)
		}
		go a.Run()
		a.open.Begin()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheAuditLogIsAFileForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	opts := Options{AuditLog: path}
	who := func(context.Context, tenant.Caller, string) (authenticationv1.UserInfo, tenant.Answer) {
		return authenticationv1.UserInfo{Username: "alice"}, tenant.Answer{Outcome: tenant.Allowed}
	}
	a, err := NewAuditor(opts, who, NewMetrics("test"))
	if err != nil {
		t.Fatal(err)
	}
	go a.Run()
	a.Ended(&Outcome{Request: aRequest(), Took: time.Second, AuditID: a.Begin()})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), `"durationSeconds":1.000000`) {
		t.Errorf("%v: %s", err, data)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

// TestOneCallersLinesLeaveRoomForOthers: one caller's refusals must not hide another's.
func TestOneCallersLinesLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLineLimiter(refusedLineRate, refusedLineBurst)
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]int{}
		for range 100 {
			for range 100 {
				if l.allow(access.CountedUser("", authenticationv1.UserInfo{Username: "mallory"}).Key) {
					written["mallory"]++
				}
			}
			if l.allow(access.CountedUser("", authenticationv1.UserInfo{Username: "alice"}).Key) {
				written["alice"]++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if written["alice"] != 100 || written["mallory"] < refusedLineBurst/callerLineShare || written["mallory"] > (refusedLineBurst+refusedLineRate)/callerLineShare+1 {
			t.Errorf("lines: %v", written)
		}
	})
}

// buffer is where tests let the audit log go.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (*buffer) Close() error { return nil }

func (b *buffer) lines(t *testing.T) []AuditLine {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, err := ReadAuditLines(bytes.NewReader(b.text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// aRequest comes from a documented address.
func aRequest() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.7:4711"
	return r
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// within waits, for a bounded time, until ok.
func within(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("timed out before %s", what)
}
