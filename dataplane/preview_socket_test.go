// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
)

// A page whose session has ended sees that its WebSocket opens and is closed with a reason: a refused
// handshake says nothing to a script, and Vite's page would wait for ever.
func TestTheSocketOfAnEndedSessionOpensAndIsClosed(t *testing.T) {
	over := func(c *preview.Claims) { c.Expires = time.Now().Add(-time.Minute).Unix() }
	for name, c := range map[string]struct {
		cookie func(*testing.T) string
		origin string
		opens  bool
		code   int
	}{
		"a session that is over":                  {cookie: func(t *testing.T) string { return sealed(t, preview.Session, previewHost, over) }, origin: "https://" + previewHost, opens: true},
		"no session":                              {cookie: func(*testing.T) string { return "" }, origin: "https://" + previewHost, opens: true},
		"one that is not ours":                    {cookie: func(*testing.T) string { return "k1.forged" }, origin: "https://" + previewHost, opens: true},
		"no session, of another page":             {cookie: func(*testing.T) string { return "" }, origin: "https://other." + previewDomain, code: http.StatusUnauthorized},
		"a session that is over, of another page": {cookie: func(t *testing.T) string { return sealed(t, preview.Session, previewHost, over) }, origin: "https://evil.example", code: http.StatusForbidden},
		"no session and no page":                  {cookie: func(*testing.T) string { return "" }, code: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			w := newPreviewWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
			header := http.Header{"Host": {previewHost}}
			if c.origin != "" {
				header.Set("Origin", c.origin)
			}
			if cookie := c.cookie(t); cookie != "" {
				header.Set("Cookie", preview.CookieName+"="+cookie)
			}
			dialer := websocket.Dialer{Subprotocols: []string{"vite-ping"}, HandshakeTimeout: time.Minute}
			conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/", header)
			if res != nil {
				defer res.Body.Close()
			}
			if !c.opens {
				if err == nil || res == nil || res.StatusCode != c.code {
					t.Fatalf("the handshake: %v, %+v", err, res)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if conn.Subprotocol() != "vite-ping" {
				t.Errorf("subprotocol %q", conn.Subprotocol())
			}
			_, _, err = conn.ReadMessage()
			var closed *websocket.CloseError
			if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation || !strings.Contains(closed.Text, "load the page again") {
				t.Errorf("it ends with %v", err)
			}
			_ = conn.Close()
			eventually(t, "the refusal is recorded", func() bool { return w.lastReason() != "" })
			if got := w.lastReason(); got != refusal.CausePreviewExpired && got != refusal.CauseNoIdentity && got != refusal.CauseBadIdentity {
				t.Errorf("reason %q", got)
			}
			if asked {
				t.Error("the pod was asked")
			}
		})
	}
}

func TestStaysRefused(t *testing.T) {
	for name, c := range map[string]struct {
		refused *refusal.Error
		want    bool
	}{
		"no session":                    {refusal.Unauthorized(refusal.CauseNoIdentity), true},
		"a right that was withdrawn":    {refusal.Forbidden(), true},
		"an instance that is gone":      {refusal.NotFound(refusal.CauseNotPlaced), true},
		"one that is suspended":         {wake.Refused(sandbarv1alpha1.SuspendedByUser), true},
		"one whose time is over":        {wake.Refused(sandbarv1alpha1.SuspendedExpired), true},
		"one that is not ready yet":     {refusal.NotReady("it starts", nil), false},
		"an app that does not listen":   {refusal.NotListening(true, "3000", nil), false},
		"a data plane that starts":      {refusal.Unavailable(refusal.CauseStarting, "try again", 0, nil), false},
		"a pod that says nothing":       {refusal.GatewayTimeout(time.Second, nil), false},
		"a replica that must not serve": {refusal.Fenced(), false},
	} {
		if got := staysRefused(c.refused); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The page of somebody whose right is withdrawn while it is open learns of it like one whose session ends.
func TestTheSocketOfAWithdrawnRightOpensAndIsClosed(t *testing.T) {
	w := newPreviewWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the pod was asked") }))
	w.kcp.grant("user:"+previewUser, "get sandboxrunners")
	header := http.Header{"Host": {previewHost}, "Origin": {"https://" + previewHost}}
	header.Set("Cookie", preview.CookieName+"="+sealed(t, preview.Session, previewHost, nil))
	dialer := websocket.Dialer{HandshakeTimeout: time.Minute}
	conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/", header)
	if res != nil {
		defer res.Body.Close()
	}
	if err != nil {
		t.Fatalf("%v, %+v", err, res)
	}
	defer conn.Close()
	_, _, err = conn.ReadMessage()
	if !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("it ends with %v", err)
	}
}
