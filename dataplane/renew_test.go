// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestWhatARenewalMakesOfTheShutdownTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	by := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, c := range map[string]struct {
		wanted  renewal
		current *metav1.Time
		want    *metav1.Time
		err     error
	}{
		"nothing is wanted":                  {renewal{}, at(time.Hour), nil, nil},
		"another time":                       {renewal{ShutdownTime: at(2 * time.Hour)}, nil, at(2 * time.Hour), nil},
		"an earlier time":                    {renewal{ShutdownTime: at(time.Minute)}, at(time.Hour), at(time.Minute), nil},
		"a time that has passed":             {renewal{ShutdownTime: at(-time.Second)}, at(time.Hour), nil, errNotAhead},
		"a time too far ahead":               {renewal{ShutdownTime: at(renewMost + time.Second)}, nil, nil, errTooFarAhead},
		"longer":                             {renewal{Extend: by(2 * time.Hour)}, at(time.Hour), at(3 * time.Hour), nil},
		"what has passed counts from now":    {renewal{Extend: by(2 * time.Hour)}, at(-time.Hour), at(2 * time.Hour), nil},
		"there is nothing to extend":         {renewal{Extend: by(2 * time.Hour)}, nil, nil, errNoShutdownTime},
		"shorter":                            {renewal{Extend: by(-time.Hour)}, at(2 * time.Hour), nil, errNotAhead},
		"too much longer":                    {renewal{Extend: by(renewMost)}, at(time.Hour), nil, errTooFarAhead},
		"so much longer that it wraps round": {renewal{Extend: by(1<<63 - 1)}, at(time.Hour), nil, errTooFarAhead},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.wanted.until(c.current, now)
			if err != c.err || !got.Equal(c.want) { //nolint:errorlint // the errors are what is compared
				t.Errorf("got %v, %v; want %v, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestRenew(t *testing.T) {
	const verb = demo + "renew"
	inAnHour := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		method, path, token, body string
		code                      int
		told                      string
		shutdown                  time.Time // in the answer and in the object
	}{
		"without a body it is use":               {"POST", verb, adminToken, "", 200, "", inAnHour},
		"by two hours":                           {"POST", verb, adminToken, `{"extend":"2h"}`, 200, "", inAnHour.Add(2 * time.Hour)},
		"until a time":                           {"POST", verb, adminToken, `{"shutdownTime":"` + inAnHour.Add(time.Hour).Format(time.RFC3339) + `"}`, 200, "", inAnHour.Add(time.Hour)},
		"both":                                   {"POST", verb, adminToken, `{"extend":"2h","shutdownTime":"2030-01-01T00:00:00Z"}`, 400, "not both", inAnHour},
		"neither":                                {"POST", verb, adminToken, `{"other":1}`, 400, "the body must be", inAnHour},
		"no JSON":                                {"POST", verb, adminToken, `2h`, 400, "the body must be", inAnHour},
		"backwards":                              {"POST", verb, adminToken, `{"extend":"-2h"}`, 400, "must lie ahead", inAnHour},
		"too large":                              {"POST", verb, adminToken, strings.Repeat(" ", maxRenewalBytes+1), 413, "4096", inAnHour},
		"another method":                         {"GET", verb, adminToken, "", 405, "POST", inAnHour},
		"another method of who may renew":        {"GET", verb, "renews", "", 405, "POST", inAnHour},
		"another method of who may not":          {"GET", verb, "reads", "", 403, "access denied", inAnHour},
		"another method of what is not there":    {"GET", verb + "/x", "renews", "", 404, "no such", inAnHour},
		"of a component":                         {"POST", demo + "components/api/renew", adminToken, "", 404, "no such", inAnHour},
		"a path below it":                        {"POST", verb + "/x", adminToken, "", 404, "no such", inAnHour},
		"who may not renew":                      {"POST", verb, "reads", "", 403, "access denied", inAnHour},
		"who may renew may use":                  {"POST", verb, "renews", "", 200, "", inAnHour},
		"who may not patch cannot move the time": {"POST", verb, "renews", `{"extend":"2h"}`, 403, "right to patch sandboxrunners", inAnHour},
		"who may patch can":                      {"POST", verb, "patches", `{"extend":"2h"}`, 200, "", inAnHour.Add(2 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{ObjectMeta: fixture.Meta(demoID, placement.ActivityLease)}
			w := newWorld(t, recorder(), func(s *setup) { s.objects = append(s.objects, lease) })
			w.kcp.grant("reads", "get sandboxrunners", "get sandboxrunners/log")
			w.kcp.grant("renews", "get sandboxrunners", "create sandboxrunners/renew")
			w.kcp.grant("patches", "get sandboxrunners", "create sandboxrunners/renew", "patch sandboxrunners")
			w.kcp.set(func() { w.kcp.shutdown = metav1.NewTime(inAnHour) })
			res, body := w.do(c.method, c.path, c.token, strings.NewReader(c.body))
			if c.code != http.StatusOK {
				if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.told) {
					t.Errorf("it was told %q, not %q", status.Message, c.told)
				}
			} else {
				var got renewed
				if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != c.code {
					t.Fatalf("got %d %s", res.StatusCode, body)
				}
				if !got.ShutdownTime.Time.Equal(c.shutdown) || got.Phase != "Ready" || time.Since(got.LastActiveTime.Time) > time.Minute {
					t.Errorf("the answer is %s, want the shutdown time %s", body, c.shutdown)
				}
				w.used()
			}
			w.kcp.set(func() {
				if !w.kcp.shutdown.Time.Equal(c.shutdown) {
					t.Errorf("the object says %s, want %s", w.kcp.shutdown, c.shutdown)
				}
			})
		})
	}
}

// TestWhoHasNoTokenMovesNoTime: the provider could write the object, and does not.
func TestWhoHasNoTokenMovesNoTime(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	inAnHour := metav1.NewTime(time.Now().Add(time.Hour))
	w.kcp.set(func() { w.kcp.shutdown = inAnHour })
	x := &exchange{
		request: httptest.NewRequest(http.MethodPost, demo+"renew", nil),
		question: access.Question{
			Caller: tenant.Subject(authenticationv1.UserInfo{Username: previewUser}),
			Ref:    tenant.Ref{Workspace: "cluster1", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
		},
	}
	_, refused := w.server.handler.renew(x, renewal{Extend: &metav1.Duration{Duration: time.Hour}}, time.Now())
	if refused == nil || refused.Code != http.StatusForbidden || !strings.Contains(refused.Message, "caller's own token") {
		t.Errorf("it was told %v", refused)
	}
	if _, refused := w.server.handler.renew(x, renewal{}, time.Now()); refused != nil {
		t.Errorf("without a body it was told %v", refused)
	}
	w.kcp.set(func() {
		if w.kcp.shutdown != inAnHour {
			t.Errorf("the object says %s", w.kcp.shutdown)
		}
	})
}
