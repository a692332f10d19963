// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	// DevicePatience is how long a person has for the login on another device, if the issuer does not give less.
	DevicePatience = 15 * time.Minute
	// maxUserCode bounds the code that a person enters; RFC 8628, 6.1 proposes nine characters.
	maxUserCode = 64
)

// ErrNoDeviceLogin means that an issuer does not offer a login on another device.
var ErrNoDeviceLogin = errors.New("the issuer offers no login on another device (device_authorization_endpoint of RFC 8628)")

// ErrDevicePatience means that nobody allowed a login on another device in time.
var ErrDevicePatience = errors.New("nobody has allowed the login on another device")

// Invitation is what a person needs for the login on another device. Its texts are the issuer's: escape them before they go to
// a terminal.
type Invitation struct {
	// Address is the page on which the person enters Code. It was checked: it is https, or http on this machine.
	Address, Code string
	// Complete is the page with the code in its address; empty if the issuer has none, or one that is not below Address.
	Complete string
	// Within is how long the invitation holds.
	Within time.Duration
}

// Device is how a person gets to the issuer's page on another device.
type Device struct {
	// Show shows an invitation to the person.
	Show func(Invitation) error
	// Patience is how long the person has; [DevicePatience] if it is zero. The issuer may give less.
	Patience time.Duration
}

// LoginDevice logs a person in whose browser is on another device (RFC 8628), and returns when they have allowed it there or
// the context ends. The errors are [ErrNoDeviceLogin], [ErrDevicePatience], a *[IssuerError] with the code access_denied if the person
// refuses, and those of every exchange.
//
// A login of this kind has no nonce and no redirect, so that it cannot be bound to this machine: somebody who starts one and has
// another person enter the code gets that person's login (RFC 8628, 5.4). Only the person can prevent this, at the issuer's page.
func (p *Provider) LoginDevice(ctx context.Context, d Device) (Tokens, error) {
	if p.oauth.Endpoint.DeviceAuthURL == "" {
		return Tokens{}, ErrNoDeviceLogin
	}
	if err := checkURL("device_authorization_endpoint", p.oauth.Endpoint.DeviceAuthURL); err != nil {
		return Tokens{}, err
	}
	patience := d.Patience
	if patience == 0 {
		patience = DevicePatience
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	calls := context.WithValue(limited, oauth2.HTTPClient, endingWith(limited, p.http))
	started, err := p.oauth.DeviceAuth(calls)
	if err != nil {
		return Tokens{}, deviceError(ctx, limited, patience, fmt.Errorf("asking for a login on another device: %w", issuerError(err)))
	}
	if !started.Expiry.IsZero() {
		patience = min(patience, max(0, time.Until(started.Expiry)).Round(time.Second))
		started.Expiry = time.Time{} // one deadline, so that its end and the end of a single exchange can be told apart
	}
	waiting, stop := context.WithTimeout(calls, patience)
	defer stop()
	invitation, err := invitationOf(started, patience)
	if err != nil {
		return Tokens{}, err
	}
	if err := d.Show(invitation); err != nil {
		return Tokens{}, fmt.Errorf("showing the issuer's page: %w", err)
	}
	answer, err := p.oauth.DeviceAccessToken(waiting, started)
	if err != nil {
		return Tokens{}, deviceError(ctx, waiting, patience, fmt.Errorf("waiting for the login on another device: %w", issuerError(err)))
	}
	tokens := Tokens{Refresh: answer.RefreshToken}
	if _, err := p.verify(limited, answer, &tokens); err != nil {
		return Tokens{}, err
	}
	return tokens, nil
}

// invitationOf checks what an issuer has a person do.
func invitationOf(started *oauth2.DeviceAuthResponse, within time.Duration) (Invitation, error) {
	switch {
	case started.DeviceCode == "" || started.UserCode == "":
		return Invitation{}, errors.New("the issuer gave no code for a login on another device")
	case len(started.UserCode) > maxUserCode:
		return Invitation{}, fmt.Errorf("the issuer gave a code of more than %d bytes, which nobody can enter", maxUserCode)
	}
	if err := checkURL("verification_uri", started.VerificationURI); err != nil {
		return Invitation{}, err
	}
	invitation := Invitation{Address: started.VerificationURI, Code: started.UserCode, Within: within}
	// A person compares one address, and the other one must not lead elsewhere, as https://issuer.example.com.evil does.
	if rest, ok := strings.CutPrefix(started.VerificationURIComplete, started.VerificationURI); ok && strings.IndexAny(rest, "?/") == 0 {
		invitation.Complete = started.VerificationURIComplete
	}
	return invitation, nil
}

// deviceError is an error of a login on another device: the end of the time has a name of its own, also when the issuer notices it first.
func deviceError(ctx, limited context.Context, patience time.Duration, err error) error {
	var issuer *IssuerError
	expired := errors.As(err, &issuer) && issuer.Code == "expired_token"
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case expired, limited.Err() != nil:
		return fmt.Errorf("%w within %s", ErrDevicePatience, patience)
	}
	return err
}

// endingWith returns a client whose requests end with a context: the library makes the first one of a login without it.
func endingWith(ctx context.Context, client *http.Client) *http.Client {
	ending := *client
	ending.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		both, cancel := context.WithCancel(req.Context())
		context.AfterFunc(ctx, cancel)
		return client.Transport.RoundTrip(req.WithContext(both))
	})
	return &ending
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
