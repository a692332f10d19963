// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/sandbar-dev/sandbar/pkg/openid/openidtest"
)

// decided is a person who decides as soon as they see the code.
func decided(i *openidtest.Issuer, problem string, seen *openid.Invitation) openid.Device {
	return openid.Device{Show: func(invitation openid.Invitation) error {
		if seen != nil {
			*seen = invitation
		}
		i.Answer(problem)
		return nil
	}}
}

func TestALoginOnAnotherDeviceGivesTokensOfThePerson(t *testing.T) {
	t.Parallel()
	i := openidtest.New(t)
	var seen openid.Invitation
	tokens, err := discover(t, i).LoginDevice(t.Context(), decided(i, "", &seen))
	if err != nil {
		t.Fatal(err)
	}
	if tokens.Subject != "alice" || tokens.ID == "" || !i.Known(tokens.Refresh) || time.Until(tokens.Expiry) < 50*time.Minute {
		t.Errorf("got %+v", tokens)
	}
	page := i.Server.URL + "/page"
	if seen.Address != page || seen.Code != "WDJB-MJHT" || seen.Complete != page+"?user_code=WDJB-MJHT" || seen.Within <= 0 || seen.Within > 5*time.Minute { // what the exchange took is gone of the five
		t.Errorf("the person sees %+v", seen)
	}
	if next, err := discover(t, i).Refresh(t.Context(), tokens); err != nil || next.ID == tokens.ID {
		t.Errorf("refreshed: %+v, %v", next, err)
	}
}

// A person may take minutes: the code is asked for again, and no faster than the issuer says.
func TestALoginOnAnotherDeviceIsAskedForUntilItIsDecided(t *testing.T) {
	t.Parallel()
	i := openidtest.New(t)
	polls := make(chan time.Time, 8)
	i.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			polls <- time.Now()
			if len(polls) == 2 {
				i.Answer("")
			}
		}
		return false
	})
	began := time.Now()
	tokens, err := discover(t, i).LoginDevice(t.Context(), decided(i, "authorization_pending", nil))
	if err != nil || tokens.Subject != "alice" {
		t.Fatalf("got %+v, %v", tokens, err)
	}
	first, second := <-polls, <-polls
	if len(polls) != 0 || first.Sub(began) < time.Second || second.Sub(began) < 2*time.Second {
		t.Errorf("it asked after %s and %s, and %d times more", first.Sub(began), second.Sub(began), len(polls))
	}
}

func TestALoginOnAnotherDeviceThatIsNotAllowedSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange  func(*openidtest.Issuer)
		problem  string
		patience time.Duration
		want     string
		is       error
	}{
		"the person refuses":      {problem: "access_denied", want: "the issuer answers access_denied"},
		"the code has ended":      {problem: "expired_token", is: openid.ErrDevicePatience, want: " within "},
		"nobody comes":            {problem: "authorization_pending", patience: 50 * time.Millisecond, is: openid.ErrDevicePatience, want: "within 50ms"},
		"the issuer has no such":  {arrange: func(i *openidtest.Issuer) { i.Metadata("device_authorization_endpoint", nil) }, is: openid.ErrNoDeviceLogin},
		"an endpoint in the open": {arrange: func(i *openidtest.Issuer) { i.Metadata("device_authorization_endpoint", "http://issuer.example.com/x") }, want: "the device_authorization_endpoint"},
		"a page in the open":      {arrange: func(i *openidtest.Issuer) { i.Invitation("verification_uri", "http://issuer.example.com/x") }, want: "the verification_uri"},
		"a page that is a file":   {arrange: func(i *openidtest.Issuer) { i.Invitation("verification_uri", "file:///etc/passwd") }, want: "the verification_uri"},
		"no code":                 {arrange: func(i *openidtest.Issuer) { i.Invitation("user_code", "") }, want: "gave no code"},
		"a code without an end":   {arrange: func(i *openidtest.Issuer) { i.Invitation("user_code", strings.Repeat("x", 65)) }, want: "more than 64 bytes"},
		"no ID token":             {arrange: func(i *openidtest.Issuer) { i.Withhold(true, false) }, is: openid.ErrNoIDToken},
		"another signature":       {arrange: func(i *openidtest.Issuer) { i.Withhold(false, true) }, want: "verifying the ID token"},
		"another audience":        {arrange: func(i *openidtest.Issuer) { i.Claim("aud", "other") }, want: "audience"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := openidtest.New(t)
			if c.arrange != nil {
				c.arrange(i)
			}
			d := decided(i, c.problem, nil)
			d.Patience = c.patience
			tokens, err := discover(t, i).LoginDevice(t.Context(), d)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || tokens != (openid.Tokens{}) {
				t.Errorf("got %+v, %v, want %q", tokens, err, c.want)
			}
		})
	}
}

// A page that is not below the address which the person compares could be anybody's.
func TestThePageWithTheCodeIsTheOneThatIsShown(t *testing.T) {
	t.Parallel()
	for _, complete := range []any{"", nil, "https://evil.example.com/?user_code=WDJB-MJHT", "javascript:alert(1)", "evil"} {
		i := openidtest.New(t)
		if complete == "evil" {
			complete = i.Server.URL + "/page.evil.example.com"
		}
		i.Invitation("verification_uri_complete", complete)
		var seen openid.Invitation
		if _, err := discover(t, i).LoginDevice(t.Context(), decided(i, "access_denied", &seen)); err == nil || seen.Complete != "" || seen.Code == "" {
			t.Errorf("%v: the person sees %+v, %v", complete, seen, err)
		}
	}
}

// An exchange that follows a redirect takes the device code to another host.
func TestALoginOnAnotherDeviceFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/device", "/token"} {
		i := openidtest.New(t)
		i.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			http.Redirect(w, r, "https://elsewhere.example.com", http.StatusTemporaryRedirect)
			return true
		})
		if _, err := discover(t, i).LoginDevice(t.Context(), decided(i, "", nil)); err == nil || !strings.Contains(err.Error(), "does not follow a redirect") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestTheWaitForAnotherDeviceEndsWithTheContext(t *testing.T) {
	t.Parallel()
	i := openidtest.New(t)
	p := discover(t, i)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := p.LoginDevice(ctx, openid.Device{Show: func(openid.Invitation) error { cancel(); return nil }}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The library makes the first request without a context.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	left := make(chan struct{})
	i.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/device" {
			return false
		}
		cancel()
		<-r.Context().Done()
		close(left)
		return true
	})
	if _, err := p.LoginDevice(ctx, decided(i, "", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-left
}
