// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// leeway is how long before its end an ID token is not given out any more: a request takes time, and clocks differ.
const leeway = time.Minute

// NewName returns a name for a login.
func NewName() string { return rand.Text() }

// Token returns an ID token of a login that is valid for a while, and when it ends. It refreshes the login if needed, one
// process at a time, and keeps what the issuer has given before it looks at it closer. The error is a *[NoLoginError] or
// [ErrEnded] if the person has to log in again.
func (s Store) Token(ctx context.Context, name string) (string, time.Time, error) {
	login, err := s.Load(name)
	if err != nil {
		return "", time.Time{}, err
	}
	if login.Tokens.valid(time.Now()) {
		return login.Tokens.ID, login.Tokens.Expiry, nil
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return "", time.Time{}, err
	}
	defer unlock()
	// Another process may have refreshed it, or logged out, during the wait.
	if login, err = s.Load(name); err != nil {
		return "", time.Time{}, err
	}
	if login.Tokens.valid(time.Now()) {
		return login.Tokens.ID, login.Tokens.Expiry, nil
	}
	provider, err := Discover(ctx, login.Config)
	if err != nil {
		return "", time.Time{}, err
	}
	before := login.Tokens
	// An issuer that has the refresh token may have forgotten it already: an interruption from here on would lose the
	// login. The exchange ends by its own limit.
	tokens, err := provider.Refresh(context.WithoutCancel(ctx), before)
	if tokens.Refresh != before.Refresh || tokens.ID != "" {
		login.Tokens = tokens
		err = errors.Join(err, s.Save(name, login))
	}
	if err != nil {
		return "", time.Time{}, err
	}
	return tokens.ID, tokens.Expiry, nil
}

// Remove takes a login from the machine, after a process that refreshes it is done, and returns it.
func (s Store) Remove(ctx context.Context, name string) (Login, error) {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return Login{}, err
	}
	defer unlock()
	login, err := s.Load(name)
	if err != nil {
		return Login{}, err
	}
	return login, s.remove(name)
}

func (t Tokens) valid(now time.Time) bool {
	return t.ID != "" && now.Add(leeway).Before(t.Expiry)
}
