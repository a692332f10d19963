// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Tokens are what an issuer has given for a login.
type Tokens struct {
	// ID is the ID token, which kcp takes as a bearer token. It is empty if the issuer gave none that is valid.
	ID string `json:"idToken,omitempty"`
	// Expiry is when it ends.
	Expiry time.Time `json:"expiry,omitzero"`
	// Subject is the person, as the issuer names them.
	Subject string `json:"subject,omitempty"`
	// Refresh gets the next tokens, once; empty if the issuer gives none.
	Refresh string `json:"refreshToken,omitempty"` //nolint:gosec // G117: the store writes it, and nothing else does
}

// ErrEnded means that the issuer does not know a refresh token any more.
var ErrEnded = errors.New("the login has ended")

// ErrNoIDToken means that an issuer's answer has no ID token.
var ErrNoIDToken = errors.New("the issuer gave no ID token")

// IssuerError is an error that an issuer has answered (RFC 6749, 5.2).
type IssuerError struct {
	// Code is the error's name, for example access_denied, and Description the issuer's words.
	Code, Description string
	// Status is the status of the answer; zero if the error came through the browser.
	Status int
}

// Error implements error.
func (e *IssuerError) Error() string {
	text := "the issuer answers " + short(e.Code)
	if e.Code == "" {
		text = fmt.Sprintf("the issuer answers %d", e.Status)
	}
	if e.Description != "" {
		text += " (" + short(e.Description) + ")"
	}
	return text
}

// issuerError leaves out the answer's body, which the library quotes: it can hold a token.
func issuerError(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return err
	}
	out := &IssuerError{Code: answer.ErrorCode, Description: answer.ErrorDescription}
	if answer.Response != nil {
		out.Status = answer.Response.StatusCode
	}
	return out
}

// Exchange gets the tokens for an authorization code. The code is sent once.
func (p *Provider) exchange(ctx context.Context, redirect, code, verifier, nonce string) (Tokens, error) {
	client := p.oauth
	client.RedirectURL = redirect
	answer, err := client.Exchange(context.WithValue(ctx, oauth2.HTTPClient, p.http), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return Tokens{}, fmt.Errorf("exchanging the code: %w", issuerError(err))
	}
	tokens := Tokens{Refresh: answer.RefreshToken}
	id, err := p.verify(ctx, answer, &tokens)
	if err != nil {
		return Tokens{}, err
	}
	if id.Nonce != nonce {
		return Tokens{}, errors.New("the ID token is for another login: its nonce is another one")
	}
	return tokens, nil
}

// verify puts the ID token of an answer into tokens if it is one of the issuer for this client.
func (p *Provider) verify(ctx context.Context, answer *oauth2.Token, tokens *Tokens) (*oidc.IDToken, error) {
	raw, _ := answer.Extra("id_token").(string)
	if raw == "" {
		return nil, ErrNoIDToken
	}
	id, err := p.verifier.Verify(oidc.ClientContext(ctx, p.http), raw)
	if err != nil {
		return nil, fmt.Errorf("verifying the ID token: %s", short(err.Error()))
	}
	tokens.ID, tokens.Expiry, tokens.Subject = raw, id.Expiry, id.Subject
	return id, nil
}

// Refresh gets new tokens for a refresh token, which is sent once. Many issuers give a new refresh token and forget the old
// one: the returned tokens have the one that counts from now on also when there is an error, after which ID is empty. The
// error is [ErrEnded] if the person has to log in again.
func (p *Provider) Refresh(ctx context.Context, before Tokens) (Tokens, error) {
	after := Tokens{Refresh: before.Refresh, Subject: before.Subject}
	if before.Refresh == "" {
		return after, ErrEnded
	}
	source := p.oauth.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, p.http), &oauth2.Token{RefreshToken: before.Refresh})
	answer, err := source.Token()
	if err != nil {
		err = issuerError(err)
		var issuer *IssuerError
		if errors.As(err, &issuer) && issuer.Code == "invalid_grant" {
			return after, fmt.Errorf("%w: %w", ErrEnded, err)
		}
		return after, fmt.Errorf("refreshing the login: %w", err)
	}
	if answer.RefreshToken != "" {
		after.Refresh = answer.RefreshToken
	}
	verified := after
	if _, err := p.verify(ctx, answer, &verified); err != nil {
		return after, err
	}
	// OpenID Connect Core, 12.2: a refresh does not change the person.
	if before.Subject != "" && verified.Subject != before.Subject {
		return after, errors.New("the issuer gave an ID token of another person")
	}
	return verified, nil
}

// Revoke makes the issuer forget a refresh token (RFC 7009). It reports whether the issuer has a way to do so.
func (p *Provider) Revoke(ctx context.Context, tokens Tokens) (bool, error) {
	if p.revocation == "" || tokens.Refresh == "" {
		return false, nil
	}
	form := url.Values{"token": {tokens.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {p.config.ClientID}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return false, fmt.Errorf("revoking the login: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := p.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("revoking the login: %w", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("revoking the login: %w", &IssuerError{Status: res.StatusCode})
	}
	return true, nil
}
