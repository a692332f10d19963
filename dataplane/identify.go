// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// maxTokenBytes bounds a bearer token. Tokens with many groups stay well below it.
	maxTokenBytes = 16 << 10
	// bearerProtocolPrefix begins the WebSocket subprotocol that carries a bearer token, for
	// browsers, which cannot set a header on a WebSocket. The convention is that of
	// k8s.io/apiserver, authentication/request/websocket.
	bearerProtocolPrefix = "base64url.bearer.authorization.k8s.io." //nolint:gosec // a prefix, not a token
	protocolHeader       = "Sec-Websocket-Protocol"
)

// How a caller was identified, for the audit log.
const (
	authenticatedByToken         = "token"
	authenticatedByRequestHeader = "requestheader"
)

// identify finds out who calls. What a front proxy says goes before a token, as in Kubernetes: a
// proxy that has verified a token may pass it on all the same.
func (h *handler) identify(x *exchange) (tenant.Caller, *refusal) {
	if caller, ok := h.front.identify(x.request); ok && !caller.IsZero() {
		x.authenticatedBy = authenticatedByRequestHeader
		return caller, nil
	}
	caller, refused := identifyByToken(x.request)
	if refused == nil {
		x.authenticatedBy = authenticatedByToken
	}
	return caller, refused
}

// identifyByToken takes a bearer token as it is: kcp says what it is worth.
func identifyByToken(r *http.Request) (tenant.Caller, *refusal) {
	values := r.Header["Authorization"]
	switch {
	case len(values) > 1:
		// Two headers may be read differently by whoever stands in front of us.
		return tenant.Caller{}, unauthorized(causeBadIdentity)
	case len(values) == 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		token = strings.Trim(token, " ")
		if !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
			return tenant.Caller{}, unauthorized(causeBadIdentity)
		}
		return tenant.Bearer(token), nil
	case isUpgrade(r.Header):
		token, refused := tokenInProtocol(r.Header[protocolHeader])
		return tenant.Bearer(token), refused
	}
	return tenant.Caller{}, unauthorized(causeNoIdentity)
}

// tokenInProtocol finds the token among the WebSocket subprotocols that a client offers.
func tokenInProtocol(offers []string) (string, *refusal) {
	var found string
	for _, offer := range offers {
		for protocol := range strings.SplitSeq(offer, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), bearerProtocolPrefix)
			if !ok {
				continue
			}
			token, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
			if err != nil || !isToken(string(token)) || found != "" {
				return "", unauthorized(causeBadIdentity)
			}
			found = string(token)
		}
	}
	if found == "" {
		return "", unauthorized(causeNoIdentity)
	}
	return found, nil
}

// withoutBearerProtocol removes the token from the subprotocols that go on to a pod; it
// returns nil when nothing is left. A pod that saw the token could act as the caller.
func withoutBearerProtocol(offers []string) []string {
	var kept []string
	for _, offer := range offers {
		for protocol := range strings.SplitSeq(offer, ",") {
			protocol = strings.TrimSpace(protocol)
			// Compared without case: what we do not take for a token must not pass as
			// one elsewhere either.
			if protocol != "" && !strings.HasPrefix(strings.ToLower(protocol), bearerProtocolPrefix) {
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

// isUpgrade tells whether a request asks for another protocol.
func isUpgrade(header http.Header) bool {
	return httpguts.HeaderValuesContainsToken(header["Connection"], "upgrade") || len(header["Upgrade"]) > 0
}
