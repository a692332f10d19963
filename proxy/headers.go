// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop are the headers that end at this hop (RFC 9110 section 7.6.1, and those that RFC 2616 named), by their canonical
// names.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

const forwardedFor = "X-Forwarded-For"

// removeHopByHop removes the headers of this hop, and those that Connection names.
func removeHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for token := range strings.SplitSeq(value, ",") {
			if token = textproto.TrimString(token); token != "" && !strings.EqualFold(token, "close") && !strings.EqualFold(token, "keep-alive") {
				h.Del(token)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// toUpstream turns the header of a client's request into that of the request that goes on. That of trailers stays: gRPC's
// servers want to know that they are read.
func toUpstream(h http.Header, client string) {
	trailers := hasToken(h["Te"], "trailers")
	removeHopByHop(h)
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // keeps net/http from adding its own
	}
	// After the headers of the hop: "Connection: X-Forwarded-For" must not remove it.
	if prior := h[forwardedFor]; len(prior) > 0 {
		client = strings.Join(prior, ", ") + ", " + client
	}
	h[forwardedFor] = []string{client}
}

// hasToken reports whether a list in a header has a token.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(textproto.TrimString(part), token) {
				return true
			}
		}
	}
	return false
}

// protocolsOf returns the protocols that a request asks to be upgraded to; nil if it asks for none that may pass.
//
// The attack: an upgrade to h2c, behind which requests follow that nobody compares with a rule, or an upgrade with a body, of
// which the backend reads as a request what the proxy takes for the body. Both go on without the upgrade, which a server may
// always ignore.
func protocolsOf(r *http.Request) []string {
	protocols := r.Header["Upgrade"]
	switch {
	case len(protocols) == 0 || r.ProtoMajor != 1 || r.ProtoMinor != 1 || !hasToken(r.Header["Connection"], "upgrade"):
		return nil
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return nil
	case hasToken(protocols, "h2c"):
		return nil
	}
	return protocols
}
