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
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// alice is a user of the example server.
const alice, aliceID, password = "test-user2", "id2", "verysecure"

// provider starts the example server with a public client, which may return to 127.0.0.1 at any port.
func provider(t *testing.T) openid.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String()
	storage.RegisterClients(storage.NativeClient("sandbar", "http://127.0.0.1/callback"))
	server.Config.Handler = exampleop.SetupServer(issuer, devices{storage.NewStorage(storage.NewUserStore(issuer + "/"))}, slog.New(slog.DiscardHandler), false)
	server.Start()
	t.Cleanup(server.Close)
	return openid.Config{Issuer: issuer, ClientID: "sandbar", Scopes: []string{"email"}}
}

// publicDevice is a public client that may use the grants of the browser and of another device. The example server's own client
// for devices has a secret, which a command line cannot keep.
type publicDevice struct{ op.Client }

// GrantTypes implements op.Client.
func (c publicDevice) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}

// devices is the example server's storage with such clients.
type devices struct{ *storage.Storage }

// GetClientByClientID implements op.Storage.
func (d devices) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := d.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return publicDevice{c}, nil
}

// CompleteDeviceAuthorization is called with the name of the person, where the example's tokens need their ID.
func (d devices) CompleteDeviceAuthorization(ctx context.Context, userCode, name string) error {
	if name != alice {
		return fmt.Errorf("there is no %s", name)
	}
	return d.Storage.CompleteDeviceAuthorization(ctx, userCode, aliceID)
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
	if tokens.Subject != aliceID || tokens.ID == "" || tokens.Refresh == "" || time.Until(tokens.Expiry) < time.Minute {
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

// decides opens a page in a browser of another device, logs in with a password, and allows or denies what waits.
func decides(ctx context.Context, page, action string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar}
	at, err := url.Parse(page)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		path string
		form url.Values
		says string
	}{
		{"/login", url.Values{"user_code": {at.Query().Get("user_code")}, "username": {alice}, "password": {password}}, "sandbar"},
		{"/confirm", url.Values{"action": {action}}, "Device authorization " + action},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Scheme+"://"+at.Host+at.Path+step.path, strings.NewReader(step.form.Encode()))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := browser.Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), step.says) {
			return fmt.Errorf("%s answers %s", step.path, text)
		}
	}
	return nil
}

func TestALoginOnAnotherDeviceAtARealProvider(t *testing.T) {
	p, err := openid.Discover(t.Context(), provider(t))
	if err != nil {
		t.Fatal(err)
	}
	login := func(action string) (openid.Tokens, error) {
		return p.LoginDevice(t.Context(), openid.Device{Show: func(i openid.Invitation) error {
			if i.Code == "" || !strings.HasPrefix(i.Complete, i.Address+"?user_code=") || i.Within > 5*time.Minute {
				t.Errorf("the person sees %+v", i)
			}
			return decides(t.Context(), i.Complete, action)
		}})
	}
	tokens, err := login("allowed")
	if err != nil || tokens.Subject != aliceID || tokens.ID == "" || time.Until(tokens.Expiry) < time.Minute {
		t.Errorf("allowed: %+v, %v", tokens, err)
	}
	var denied *openid.IssuerError
	if tokens, err := login("denied"); !errors.As(err, &denied) || denied.Code != "access_denied" || tokens.ID != "" {
		t.Errorf("denied: %+v, %v", tokens, err)
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
