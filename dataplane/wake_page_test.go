// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

// hostilePath would run if the page showed anything of the request.
const hostilePath = `/<script>alert(1)</script>?q="><img%20src=x%20onerror=alert(1)>`

// TestABrowserThatOpensASleepingPreviewSeesAPageThatLoadsItself: and the app, once it is awake.
func TestABrowserThatOpensASleepingPreviewSeesAPageThatLoadsItself(t *testing.T) {
	w := newPreviewWorld(t, recorder(), asleep)
	session := sealed(t, preview.Session, previewHost, nil)
	path := strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22").Replace(hostilePath)
	for range 3 {
		res, body := w.browse(http.MethodGet, path, session, navigating)
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "This preview is waking up") {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
		for name, want := range map[string]string{
			"Refresh": "1", "Retry-After": "1", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if strings.Contains(body, "alert") || strings.Contains(body, "<script") {
			t.Errorf("the page has something of the request, or a script: %s", body)
		}
	}
	w.holds(0) // no place is taken by somebody who looks at a page
	w.wakeUp()
	eventually(t, "the app is shown", func() bool {
		res, _ := w.browse(http.MethodGet, "/", session, navigating)
		return res.StatusCode == http.StatusOK
	})
	if n := w.leaseWrites(); n != 1 {
		t.Errorf("the Lease was written %d times", n)
	}
}

func TestWhatTheAppsOwnPageSendsWaits(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		change []func(*http.Request)
	}{
		"a fetch": {http.MethodGet, []func(*http.Request){with("Sec-Fetch-Site", "same-origin"), with("Sec-Fetch-Mode", "cors"), with("Accept", "*/*")}},
		"a form":  {http.MethodPost, []func(*http.Request){navigating, with("Sec-Fetch-Site", "same-origin"), with("Origin", "https://"+previewHost)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPreviewWorld(t, recorder(), asleep)
			session := sealed(t, preview.Session, previewHost, nil)
			got := make(chan int, 1)
			go func() {
				res, _ := w.browse(c.method, "/", session, c.change...)
				got <- res.StatusCode
			}()
			w.holds(1)
			w.wakeUp()
			if code := <-got; code != http.StatusOK {
				t.Errorf("got %d", code)
			}
		})
	}
}

func TestThePageOfWhatIsSuspendedDoesNotLoadItself(t *testing.T) {
	for cause, title := range map[sandbarv1alpha1.SuspensionCause]string{
		sandbarv1alpha1.SuspendedByUser: "This preview is suspended", sandbarv1alpha1.SuspendedExpired: "This preview has ended",
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			w := newPreviewWorld(t, recorder(), asleep, func(s *setup) { s.suspended = cause })
			res, body := w.browse(http.MethodGet, "/", sealed(t, preview.Session, previewHost, nil), navigating)
			if res.StatusCode != http.StatusConflict || !strings.Contains(body, title) {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if got := res.Header.Get("Refresh"); got != "" {
				t.Errorf("it loads itself again after %s s", got)
			}
		})
	}
}
