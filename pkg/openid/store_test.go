// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/sandbar-dev/sandbar/pkg/openid/openidtest"
)

// kept is a login in a store, whose ID token ends after a time.
func kept(t *testing.T, i *openidtest.Issuer, left time.Duration) (store openid.Store, name string, tokens openid.Tokens) {
	t.Helper()
	tokens = loggedIn(t, i)
	tokens.Expiry = time.Now().Add(left)
	store, name = openid.Store{Dir: filepath.Join(t.TempDir(), "logins")}, openid.NewName()
	if err := store.Save(name, openid.Login{Config: configOf(i), Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	return store, name, tokens
}

func TestATokenIsRefreshedBeforeItEnds(t *testing.T) {
	i := openidtest.New(t)
	store, name, tokens := kept(t, i, time.Hour)
	if got, _, err := store.Token(t.Context(), name); err != nil || got != tokens.ID {
		t.Errorf("a token that is valid: got another one, %v", err)
	}
	store, name, tokens = kept(t, i, 30*time.Second)
	got, end, err := store.Token(t.Context(), name)
	if err != nil || got == tokens.ID || time.Until(end) < 50*time.Minute {
		t.Errorf("a token that ends: got the same one or %v", err)
	}
	if again, _, err := store.Token(t.Context(), name); err != nil || again != got {
		t.Errorf("the refreshed token is not kept: %v", err)
	}
	if n := i.Count("/token refresh_token"); n != 1 {
		t.Errorf("refreshed %d times", n)
	}
}

func TestALoginIsForItsOwnerAlone(t *testing.T) {
	store, name, _ := kept(t, openidtest.New(t), time.Hour)
	for path, want := range map[string]os.FileMode{store.Dir: 0o700, filepath.Join(store.Dir, name+".json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
	}
	for _, name := range []string{"", "../x", "a", strings.Repeat("A", 41), "AAAAAAAAAAAAAAAAAAAA/../X"} {
		if _, err := store.Load(name); err == nil || !strings.Contains(err.Error(), "not the name of a login") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if err := os.Truncate(filepath.Join(store.Dir, name+".json"), 4<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(name); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("a login without an end: got %v", err)
	}
	var missing *openid.NoLoginError
	if _, err := store.Load(openid.NewName()); !errors.As(err, &missing) {
		t.Errorf("a login that is not there: got %v", err)
	}
}

// A refresh token is good for one use: the second process would end the login for both.
func TestProcessesRefreshALoginOneAfterTheOther(t *testing.T) {
	i := openidtest.New(t)
	store, name, _ := kept(t, i, 0)
	var wait sync.WaitGroup
	got := make([]string, 8)
	for n := range got {
		wait.Go(func() {
			token, _, err := store.Token(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			got[n] = token
		})
	}
	wait.Wait()
	for _, token := range got {
		if token != got[0] {
			t.Error("two processes have two tokens")
		}
	}
	if n := i.Count("/token refresh_token"); n != 1 {
		t.Errorf("refreshed %d times", n)
	}
}

// The issuer forgets the old refresh token when it gives a new one: to lose the new one is to lose the login.
func TestARotatedRefreshTokenIsKeptWhenTheIDTokenIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		idToken, keys bool
		unreadable    bool
	}{
		"the answer has no ID token":   {idToken: true},
		"the keys are somebody else's": {keys: true},
		"the keys cannot be read":      {unreadable: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := openidtest.New(t)
			store, login, tokens := kept(t, i, 0)
			i.Withhold(c.idToken, c.keys)
			i.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if !c.unreadable || r.URL.Path != "/keys" {
					return false
				}
				http.Error(w, "later", http.StatusServiceUnavailable)
				return true
			})
			if _, _, err := store.Token(t.Context(), login); err == nil {
				t.Fatal("a token was given out")
			}
			after, err := store.Load(login)
			if err != nil || after.Tokens.Refresh == tokens.Refresh || !i.Known(after.Tokens.Refresh) {
				t.Fatalf("the login has a refresh token that the issuer does not know: %v", err)
			}
			i.Withhold(false, false)
			i.Before(nil)
			if _, _, err := store.Token(t.Context(), login); err != nil {
				t.Errorf("after the issuer is well again: %v", err)
			}
		})
	}
}

// Ctrl-C while the issuer answers: it has given a new refresh token, and knows the old one no more.
func TestAnInterruptedRefreshKeepsTheLogin(t *testing.T) {
	i := openidtest.New(t)
	store, name, tokens := kept(t, i, 0)
	ctx, interrupt := context.WithCancel(t.Context())
	i.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			interrupt()
		}
		return false
	})
	if _, _, err := store.Token(ctx, name); err != nil {
		t.Errorf("an exchange that was under way: %v", err)
	}
	after, err := store.Load(name)
	if err != nil || after.Tokens.Refresh == tokens.Refresh || !i.Known(after.Tokens.Refresh) {
		t.Fatalf("the login has a refresh token that the issuer does not know: %v", err)
	}
}

func TestALoginThatHasEndedSaysSo(t *testing.T) {
	i := openidtest.New(t)
	store, name, _ := kept(t, i, 0)
	i.Forget()
	if _, _, err := store.Token(t.Context(), name); !errors.Is(err, openid.ErrEnded) {
		t.Errorf("a refresh token that the issuer has forgotten: got %v", err)
	}
	if err := store.Save(name, openid.Login{Config: configOf(i)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Token(t.Context(), name); !errors.Is(err, openid.ErrEnded) {
		t.Errorf("without a refresh token: got %v", err)
	}
}

// A failure on the way leaves the login as it is: the next attempt may succeed.
func TestAnIssuerThatIsAwayEndsNoLogin(t *testing.T) {
	i := openidtest.New(t)
	store, name, tokens := kept(t, i, 0)
	i.Before(func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "later", http.StatusServiceUnavailable)
		return true
	})
	if _, _, err := store.Token(t.Context(), name); err == nil || errors.Is(err, openid.ErrEnded) {
		t.Errorf("got %v", err)
	}
	if after, err := store.Load(name); err != nil || after.Tokens.Refresh != tokens.Refresh {
		t.Errorf("the refresh token was lost: %v", err)
	}
	i.Before(nil)
	if _, _, err := store.Token(t.Context(), name); err != nil {
		t.Errorf("after the issuer is back: %v", err)
	}
}

// A process that refreshes must not write a login that another one has removed meanwhile.
func TestALogoutWaitsForARefresh(t *testing.T) {
	i := openidtest.New(t)
	store, name, _ := kept(t, i, 0)
	began, goOn := make(chan struct{}), make(chan struct{})
	i.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			close(began)
			<-goOn
		}
		return false
	})
	refreshed := make(chan error, 1)
	go func() {
		_, _, err := store.Token(t.Context(), name)
		refreshed <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Remove(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("a logout that is interrupted during the refresh: got %v", err)
	}
	close(goOn)
	login, err := store.Remove(t.Context(), name)
	if failed := <-refreshed; failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if !i.Known(login.Tokens.Refresh) {
		t.Error("the logout has a refresh token that is not the last one")
	}
	left, err := os.ReadDir(store.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("after a logout there is %v, %v", left, err)
	}
}
