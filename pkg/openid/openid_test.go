// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/sandbar-dev/sandbar/pkg/openid/openidtest"
)

func configOf(i *openidtest.Issuer) openid.Config {
	return openid.Config{Issuer: i.Server.URL, ClientID: openidtest.ClientID, CA: i.CA()}
}

func discover(t *testing.T, i *openidtest.Issuer) *openid.Provider {
	t.Helper()
	p, err := openid.Discover(t.Context(), configOf(i))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// visiting is a browser that follows the provider's redirects, as far as the program's own page.
func visiting(i *openidtest.Issuer) openid.Browser {
	return openid.Browser{Open: func(ctx context.Context, address string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		go func() {
			if res, err := i.Server.Client().Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		return nil
	}}
}

func loggedIn(t *testing.T, i *openidtest.Issuer) openid.Tokens {
	t.Helper()
	tokens, err := discover(t, i).Login(t.Context(), visiting(i))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestALoginInTheBrowserGivesTokensOfThePerson(t *testing.T) {
	i := openidtest.New(t)
	tokens := loggedIn(t, i)
	if tokens.Subject != "alice" || tokens.ID == "" || !i.Known(tokens.Refresh) || time.Until(tokens.Expiry) < 50*time.Minute {
		t.Errorf("got %+v", tokens)
	}
	if n := i.Count("/token authorization_code"); n != 1 {
		t.Errorf("the code was sent %d times", n)
	}
	next, err := discover(t, i).Refresh(t.Context(), tokens)
	if err != nil || next.ID == "" || next.ID == tokens.ID || next.Refresh == tokens.Refresh || !i.Known(next.Refresh) {
		t.Errorf("refreshed: %+v, %v", next, err)
	}
	if done, err := discover(t, i).Revoke(t.Context(), next); err != nil || !done || i.Known(next.Refresh) {
		t.Errorf("revoked: %v, %v", done, err)
	}
}

// The issuer is named by the person, and what it says about itself is not trusted further.
func TestOnlyHTTPSOrThisMachineGetsALogin(t *testing.T) {
	for _, issuer := range []string{
		"", "http://issuer.example.com", "file:///etc/passwd", "javascript:alert(1)", "https://", "https://a@issuer.example.com", "https://issuer.example.com/#a",
		"http://localhost.example.com", "http://127.0.0.1.example.com", "http://10.0.0.1",
	} {
		var wrong *openid.URLError
		if _, err := openid.Discover(t.Context(), openid.Config{Issuer: issuer, ClientID: "c"}); !errors.As(err, &wrong) || wrong.What != "issuer" {
			t.Errorf("%q: got %v", issuer, err)
		}
	}
	for _, endpoint := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		for _, address := range []string{"", "http://issuer.example.com/x", "file:///etc/passwd", "vscode://x/y", "--help", "https://a:b@issuer.example.com/"} {
			i := openidtest.New(t)
			i.Metadata(endpoint, address)
			var wrong *openid.URLError
			if _, err := openid.Discover(t.Context(), configOf(i)); !errors.As(err, &wrong) || wrong.What != endpoint {
				t.Errorf("%s %q: got %v", endpoint, address, err)
			}
		}
	}
	// A way to end logins that is not for a login is none.
	i := openidtest.New(t)
	tokens := loggedIn(t, i)
	i.Metadata("revocation_endpoint", "http://issuer.example.com/revoke")
	if done, err := discover(t, i).Revoke(t.Context(), tokens); err != nil || done {
		t.Errorf("revoked: %v, %v", done, err)
	}
}

func TestAnIssuerOfAnotherNameIsRefused(t *testing.T) {
	i := openidtest.New(t)
	i.Metadata("issuer", "https://other.example.com")
	var failed *openid.DiscoveryError
	if _, err := openid.Discover(t.Context(), configOf(i)); !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}

// A code or a refresh token in a redirect would go to another host with the request's body.
func TestNoExchangeFollowsARedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed: %s %s", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys", "/revoke"} {
		for _, code := range []int{302, 307, 308} {
			t.Run(fmt.Sprintf("%s %d", path, code), func(t *testing.T) {
				i := openidtest.New(t)
				tokens := loggedIn(t, i)
				p := discover(t, i)
				before := len(i.Requests())
				i.Before(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != path {
						return false
					}
					http.Redirect(w, r, elsewhere.URL, code)
					return true
				})
				var err error
				switch path {
				case "/.well-known/openid-configuration":
					_, err = openid.Discover(t.Context(), configOf(i))
				case "/revoke":
					_, err = p.Revoke(t.Context(), tokens)
				case "/token":
					_, err = p.Refresh(t.Context(), tokens)
					_, login := p.Login(t.Context(), visiting(i))
					if login == nil || i.Count("/token authorization_code") != 2 || i.Count("/token refresh_token") != 1 {
						t.Errorf("login: %v, requests %v", login, i.Requests()[before:])
					}
				default:
					_, err = p.Refresh(t.Context(), tokens)
				}
				if err == nil || !strings.Contains(err.Error(), "does not follow a redirect") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestTheAnswersOfAnIssuerHaveABound(t *testing.T) {
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys"} {
		i := openidtest.New(t)
		tokens := loggedIn(t, i)
		p := discover(t, i)
		i.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			for range 1<<10 + 1 {
				_, _ = w.Write(make([]byte, 1024))
			}
			return true
		})
		var err error
		if path == "/.well-known/openid-configuration" {
			_, err = openid.Discover(t.Context(), configOf(i))
		} else {
			_, err = p.Refresh(t.Context(), tokens)
		}
		if err == nil || !strings.Contains(err.Error(), "more than 524288 bytes") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// What an issuer quotes of a request can hold a token, and text without an end.
func TestErrorsOfAnIssuerQuoteLittle(t *testing.T) {
	i := openidtest.New(t)
	tokens := loggedIn(t, i)
	p := discover(t, i)
	i.Before(func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "you sent "+r.PostForm.Get("refresh_token")+strings.Repeat("x", 1000), http.StatusInternalServerError)
		return true
	})
	_, err := p.Refresh(t.Context(), tokens)
	if err == nil || strings.Contains(err.Error(), tokens.Refresh) || !strings.Contains(err.Error(), "answers 500") {
		t.Errorf("got %v", err)
	}
	_, err = openid.Discover(t.Context(), configOf(i))
	if err == nil || len(err.Error()) > 600 {
		t.Errorf("got %v", err)
	}
}

func TestATokenOfSomebodyElseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		claim string
		value any
		want  string
	}{
		"another audience":     {"aud", "other", "audience"},
		"another issuer":       {"iss", "https://other.example.com", "different provider"},
		"another login":        {"nonce", "replayed", "nonce"},
		"no nonce":             {"nonce", nil, "nonce"},
		"a token of yesterday": {"exp", time.Now().Add(-24 * time.Hour).Unix(), "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			i := openidtest.New(t)
			i.Claim(c.claim, c.value)
			tokens, err := discover(t, i).Login(t.Context(), visiting(i))
			if err == nil || !strings.Contains(err.Error(), c.want) || tokens.ID != "" {
				t.Errorf("got %+v, %v", tokens, err)
			}
		})
	}
	t.Run("another signature", func(t *testing.T) {
		i := openidtest.New(t)
		i.Withhold(false, true)
		if tokens, err := discover(t, i).Login(t.Context(), visiting(i)); err == nil || tokens.ID != "" {
			t.Errorf("got %+v, %v", tokens, err)
		}
	})
	t.Run("another person after a refresh", func(t *testing.T) {
		i := openidtest.New(t)
		tokens := loggedIn(t, i)
		i.Claim("sub", "mallory")
		next, err := discover(t, i).Refresh(t.Context(), tokens)
		if err == nil || next.ID != "" || !i.Known(next.Refresh) {
			t.Errorf("got %+v, %v", next, err)
		}
	})
}

// coming is a browser that comes back with one query after another, and not from the provider.
func coming(queries ...url.Values) openid.Browser {
	return openid.Browser{Open: func(ctx context.Context, address string) error {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		go func() {
			for _, query := range queries {
				if query.Get("state") == "right" {
					query.Set("state", u.Query().Get("state"))
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Query().Get("redirect_uri")+"?"+query.Encode(), nil)
				if err != nil {
					return
				}
				if res, err := (&http.Client{}).Do(req); err == nil {
					_ = res.Body.Close()
				}
			}
		}()
		return nil
	}}
}

func TestOnlyTheLoginsOwnStateComesBack(t *testing.T) {
	i := openidtest.New(t)
	var refused *openid.IssuerError
	_, err := discover(t, i).Login(t.Context(), coming(
		url.Values{"code": {"mallorys"}}, url.Values{"code": {"mallorys"}, "state": {"guess"}}, url.Values{"error": {"guess"}, "state": {""}},
		url.Values{"error": {"access_denied"}, "error_description": {"no\x1b[2J"}, "state": {"right"}},
	))
	if !errors.As(err, &refused) || refused.Code != "access_denied" || refused.Description != "no\x1b[2J" {
		t.Errorf("got %v", err)
	}
	if n := i.Count("/token authorization_code"); n != 0 {
		t.Errorf("a code that somebody else brought was sent %d times", n)
	}
	if _, err := discover(t, i).Login(t.Context(), coming(url.Values{"state": {"right"}})); err == nil || !strings.Contains(err.Error(), "without a code") {
		t.Errorf("without a code: got %v", err)
	}
}

func TestTheWaitForTheBrowserEnds(t *testing.T) {
	i := openidtest.New(t)
	p := discover(t, i)
	nobody := openid.Browser{Open: func(context.Context, string) error { return nil }, Patience: time.Millisecond}
	if _, err := p.Login(t.Context(), nobody); !errors.Is(err, openid.ErrPatience) || !strings.Contains(err.Error(), "1ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	nobody = openid.Browser{Open: func(context.Context, string) error { cancel(); return nil }}
	if _, err := p.Login(ctx, nobody); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
