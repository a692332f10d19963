// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
)

// auditEvent is what these tests read of a line of the audit log.
type auditEvent struct {
	ID, Stage, Workspace, Verb, Reason, UserUnknown string
	Stream                                          bool
	Code                                            int
	BytesOut                                        int64
	User                                            *struct{ Name, AuthenticatedBy string }
	Object                                          *struct{ Name, UID string }
}

// auditEvents waits for the lines with an id: they are written beside the request.
func auditEvents(t *testing.T, id string, n int) []auditEvent {
	t.Helper()
	var found []auditEvent
	eventually(t, fmt.Sprintf("the audit log has %d lines of %s", n, id), func() error {
		found = nil
		file, err := os.Open(world.AuditLog())
		if err != nil {
			return err
		}
		defer file.Close()
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			var e auditEvent
			if json.Unmarshal(scanner.Bytes(), &e) == nil && e.ID == id {
				found = append(found, e)
			}
		}
		if len(found) < n {
			return fmt.Errorf("it has %d", len(found))
		}
		return nil
	})
	return found
}

// TestAuditNamesWhoDidWhat: callers are known to the audit log by the names that a real kcp gives
// them, also those that are refused, and each is told the id of its line.
func TestAuditNamesWhoDidWhat(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	for _, c := range []struct {
		name, token, method, verb string
		code                      int
		user, unknown, reason     string
	}{
		{"a tenant", tn.token, http.MethodPost, "/restart", http.StatusOK, "alice", "", ""},
		{"a stream", tn.token, http.MethodGet, "/log", http.StatusOK, "alice", "", ""},
		{"a token that kcp does not know", tn.token + "x", http.MethodGet, "/log", http.StatusUnauthorized, "", "no_identity", "bad_identity"},
		{"nobody", "", http.MethodGet, "/log", http.StatusUnauthorized, "", "no_identity", "no_identity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body []byte
			if c.method == http.MethodPost {
				body = []byte("{}")
			}
			res := callAs(t, c.token).open(t.Context(), c.method, box.base()+c.verb, body)
			// To its end: who goes before the end of a stream is one who has gone.
			_, err := io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			id := res.Header.Get("Audit-Id")
			n := 1
			if c.name == "a stream" {
				n = 2
			}
			events := auditEvents(t, id, n)
			end := events[len(events)-1]
			if res.StatusCode != c.code || end.Code != c.code || end.Stage != "end" || end.Reason != c.reason || end.UserUnknown != c.unknown {
				t.Errorf("the answer was %d, the line is %+v", res.StatusCode, end)
			}
			if c.user == "" {
				return
			}
			if end.User == nil || end.User.Name != c.user || end.User.AuthenticatedBy != "token" || end.Object == nil || end.Object.UID != string(box.id.UID) {
				t.Errorf("the line is %+v, user %+v, object %+v", end, end.User, end.Object)
			}
			if n == 2 && (events[0].Stage != "start" || !events[0].Stream) {
				t.Errorf("the first line is %+v", events[0])
			}
		})
	}
}
