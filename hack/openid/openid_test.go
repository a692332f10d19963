// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

// alice is a user of the example server.
const alice, password = "test-user2", "verysecure"

// provider starts the example server with a public client, which may return to 127.0.0.1 at any port.
func provider(t *testing.T) openid.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String()
	storage.RegisterClients(storage.NativeClient("sandbar", "http://127.0.0.1/callback"))
	server.Config.Handler = exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer+"/")), slog.New(slog.DiscardHandler), false)
	server.Start()
	t.Cleanup(server.Close)
	return openid.Config{Issuer: issuer, ClientID: "sandbar", Scopes: []string{"email"}}
}

// person logs in at the provider's page, with a password.
func person(ctx context.Context, page, password string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar}
	call := func(method, address string, form url.Values) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := browser.Do(req)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res, res.Body.Close()
	}
	res, err := call(http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	id := res.Request.URL.Query().Get("authRequestID")
	if id == "" {
		return fmt.Errorf("the provider shows %s, which is not the page for a password", res.Request.URL)
	}
	login := *res.Request.URL
	login.RawQuery = ""
	_, err = call(http.MethodPost, login.String(), url.Values{"username": {alice}, "password": {password}, "id": {id}})
	return err
}

func TestALoginAtARealProvider(t *testing.T) {
	config := provider(t)
	p, err := openid.Discover(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tokens, err := p.Login(ctx, openid.Browser{Open: func(ctx context.Context, address string) error {
		go func() {
			if failed <- person(ctx, address, password); ctx.Err() == nil {
				return
			}
			cancel()
		}()
		return nil
	}})
	if err != nil {
		select {
		case page := <-failed:
			t.Fatal(err, page)
		default:
			t.Fatal(err)
		}
	}
	if tokens.Subject != "id2" || tokens.ID == "" || tokens.Refresh == "" || time.Until(tokens.Expiry) < time.Minute {
		t.Errorf("the provider gave %+v", tokens)
	}

	store, name := openid.Store{Dir: t.TempDir()}, openid.NewName()
	before := tokens.Refresh
	tokens.Expiry = time.Now()
	if err := store.Save(name, openid.Login{Config: config, Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	token, end, err := store.Token(t.Context(), name)
	if err != nil || token == "" || token == tokens.ID || time.Until(end) < time.Minute {
		t.Fatalf("a refresh gives a token until %v, %v", end, err)
	}
	login, err := store.Remove(t.Context(), name)
	if err != nil || login.Tokens.Refresh == before {
		t.Errorf("the provider rotates refresh tokens, and the old one is kept: %v", err)
	}
	if _, err := p.Refresh(t.Context(), openid.Tokens{Refresh: before}); !errors.Is(err, openid.ErrEnded) {
		t.Errorf("the old refresh token: got %v, want ErrEnded", err)
	}
	if done, err := p.Revoke(t.Context(), login.Tokens); err != nil || !done {
		t.Errorf("the revocation: %v, %v", done, err)
	}
	if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, openid.ErrEnded) {
		t.Errorf("a refresh token after its revocation: got %v, want ErrEnded", err)
	}
}

func TestAClientThatTheProviderDoesNotKnowComesBackWithNothing(t *testing.T) {
	config := provider(t)
	config.ClientID = "stranger"
	p, err := openid.Discover(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var page error
	_, err = p.Login(ctx, openid.Browser{Open: func(ctx context.Context, address string) error {
		page = person(ctx, address, password)
		cancel() // nobody comes back
		return nil
	}})
	if page == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, and the page says %v", err, page)
	}
}
