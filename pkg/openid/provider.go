// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Config names an issuer and this program's client at it.
type Config struct {
	// Issuer is the URL of the issuer, exactly as it is in its tokens.
	Issuer string `json:"issuer"`
	// ClientID is that of a public client, for which the issuer allows a redirect to http://127.0.0.1 at any port.
	ClientID string `json:"clientID"`
	// Scopes are asked for beside openid and, where the issuer has it, offline_access.
	Scopes []string `json:"scopes,omitempty"`
	// CA is a PEM bundle that verifies the issuer; the system's roots do if it is empty.
	CA []byte `json:"ca,omitempty"`
}

// Provider is an issuer that was asked about itself.
type Provider struct {
	config     Config
	http       *http.Client
	oauth      oauth2.Config
	verifier   *oidc.IDTokenVerifier
	revocation string
}

// DiscoveryError means that an issuer does not say where a login goes.
type DiscoveryError struct {
	Issuer string
	Err    error
}

// Error implements error.
func (e *DiscoveryError) Error() string {
	return fmt.Sprintf("asking the issuer %s about itself: %s", e.Issuer, short(e.Err.Error()))
}

// Unwrap returns Err.
func (e *DiscoveryError) Unwrap() error { return e.Err }

// maxText bounds what an error quotes of an issuer.
const maxText = 300

func short(text string) string {
	if len(text) > maxText {
		return text[:maxText] + "…"
	}
	return text
}

// Discover asks an issuer about itself (OpenID Connect Discovery). The error is a *[DiscoveryError], or a *[URLError] if the
// issuer or one of its endpoints is not a place for a login.
func Discover(ctx context.Context, config Config) (*Provider, error) {
	if err := checkURL("issuer", config.Issuer); err != nil {
		return nil, err
	}
	caller, err := newHTTPClient(config.CA)
	if err != nil {
		return nil, err
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, caller), config.Issuer)
	if err != nil {
		return nil, &DiscoveryError{config.Issuer, err}
	}
	var metadata struct {
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Keys          string   `json:"jwks_uri"`
		Revocation    string   `json:"revocation_endpoint"`
		Scopes        []string `json:"scopes_supported"`
	}
	if err := found.Claims(&metadata); err != nil {
		return nil, &DiscoveryError{config.Issuer, err}
	}
	for what, address := range map[string]string{
		"authorization_endpoint": metadata.Authorization, "token_endpoint": metadata.Token, "jwks_uri": metadata.Keys,
	} {
		if err := checkURL(what, address); err != nil {
			return nil, err
		}
	}
	if checkURL("revocation_endpoint", metadata.Revocation) != nil {
		metadata.Revocation = "" // it has none
	}
	p := &Provider{config: config, http: caller, verifier: found.VerifierContext(oidc.ClientContext(ctx, caller), &oidc.Config{ClientID: config.ClientID}), revocation: metadata.Revocation}
	p.oauth = oauth2.Config{ClientID: config.ClientID, Endpoint: found.Endpoint(), Scopes: scopes(config.Scopes, metadata.Scopes)}
	// Otherwise the library tries two ways to name the client, and sends a code twice.
	p.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	return p, nil
}

// scopes are what a login asks for. An issuer that does not list offline_access refuses it, or has another way.
func scopes(wanted, supported []string) []string {
	all := []string{oidc.ScopeOpenID}
	if len(supported) == 0 || slices.Contains(supported, oidc.ScopeOfflineAccess) {
		all = append(all, oidc.ScopeOfflineAccess)
	}
	for _, s := range wanted {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
