// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// maxTokenBytes bounds a bearer token. Tokens with many groups stay well below it.
	maxTokenBytes = 16 << 10
	// BearerProtocolPrefix begins the WebSocket subprotocol that carries a bearer token, for
	// browsers, which cannot set a header on a WebSocket. The convention is that of
	// k8s.io/apiserver, authentication/request/websocket.
	BearerProtocolPrefix = "base64url.bearer.authorization.k8s.io." //nolint:gosec // a prefix, not a token
	// ProtocolHeader is where a client offers WebSocket subprotocols.
	ProtocolHeader = "Sec-Websocket-Protocol"
)

// How a caller was identified, for the audit log.
const (
	AuthenticatedByToken         = "token"
	AuthenticatedByRequestHeader = "requestheader"
)

// IdentifyByToken takes a bearer token as it is: kcp says what it is worth.
func IdentifyByToken(r *http.Request) (tenant.Caller, *refusal.Error) {
	values := r.Header["Authorization"]
	switch {
	case len(values) > 1:
		// Two headers may be read differently by whoever stands in front of us.
		return tenant.Caller{}, refusal.Unauthorized(refusal.CauseBadIdentity)
	case len(values) == 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		token = strings.Trim(token, " ")
		if !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
			return tenant.Caller{}, refusal.Unauthorized(refusal.CauseBadIdentity)
		}
		return tenant.Bearer(token), nil
	case IsUpgrade(r.Header):
		token, refused := tokenInProtocol(r.Header[ProtocolHeader])
		return tenant.Bearer(token), refused
	}
	return tenant.Caller{}, refusal.Unauthorized(refusal.CauseNoIdentity)
}

// tokenInProtocol finds the token among the WebSocket subprotocols that a client offers.
func tokenInProtocol(offers []string) (string, *refusal.Error) {
	var found string
	for _, offer := range offers {
		for protocol := range strings.SplitSeq(offer, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), BearerProtocolPrefix)
			if !ok {
				continue
			}
			token, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
			if err != nil || !isToken(string(token)) || found != "" {
				return "", refusal.Unauthorized(refusal.CauseBadIdentity)
			}
			found = string(token)
		}
	}
	if found == "" {
		return "", refusal.Unauthorized(refusal.CauseNoIdentity)
	}
	return found, nil
}

// bearerProtocolMark is in every subprotocol that could be meant to carry a token: also in those
// whose prefix is misspelt, and which nobody here takes for a token.
const bearerProtocolMark = "bearer.authorization"

// WithoutBearerProtocol removes the token from the subprotocols that go on to a pod; it
// returns nil when nothing is left. A pod that saw the token could act as the caller. With another
// separator than a comma, or a quote in front, the token would hide in the name of another
// subprotocol: that goes with it.
func WithoutBearerProtocol(offers []string, caller tenant.Caller) []string {
	var kept []string
	for _, offer := range offers {
		for protocol := range strings.SplitSeq(offer, ",") {
			protocol = strings.Trim(protocol, " \t")
			if protocol != "" && !strings.Contains(strings.ToLower(protocol), bearerProtocolMark) && !caller.IsIn(protocol) {
				kept = append(kept, protocol)
			}
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{strings.Join(kept, ", ")}
}

// isToken tells whether s may be sent to kcp in a header.
func isToken(s string) bool {
	if s == "" || len(s) > maxTokenBytes || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// IsUpgrade tells whether a request asks for another protocol.
func IsUpgrade(header http.Header) bool {
	return httpguts.HeaderValuesContainsToken(header["Connection"], "upgrade") || len(header["Upgrade"]) > 0
}
