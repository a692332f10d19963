// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
)

// baggageHeader is the header of W3C Baggage, in which the ID is the value of one entry among others.
const baggageHeader = sandbarv1alpha1.DefaultRoutingHeader

// Selector is what each match of each rule has: the request has to carry the ID in the header. name is that of a
// SandboxRoute's selectorHeaderName, in any case; the selector has it in lower case.
//
// Of baggage it matches the entry sandbox, with any entries before and behind it and any properties. The expression is
// anchored at both ends, so that it means the same where a header is searched (Traefik) and where it is matched as a whole
// (Envoy, grpc-go). A key with percent-encoding is not the entry: in W3C Baggage, keys are tokens.
func Selector(name, id string) (sandbarv1alpha1.SandboxRouteHeaderMatch, error) {
	if err := CheckSelectorHeader(name); err != nil {
		return sandbarv1alpha1.SandboxRouteHeaderMatch{}, err
	}
	// The ID becomes part of an expression. The attack: an ID with .* or | in it, from a status or an annotation that
	// another has written, would select the requests of every sandbox, or all requests.
	if !clone.IsID(id) {
		return sandbarv1alpha1.SandboxRouteHeaderMatch{}, fmt.Errorf("%q is not the ID of a sandbox (sbx- and 8 of a-z and 0-9)", id)
	}
	match := sandbarv1alpha1.SandboxRouteHeaderMatch{Type: sandbarv1alpha1.RouteValueExact, Name: strings.ToLower(name), Value: id}
	if match.Name == baggageHeader {
		match.Type, match.Value = sandbarv1alpha1.RouteValueExpression, expressionBefore+id+expressionBehind
	}
	return match, nil
}

// What is before and behind the ID in the expression for baggage.
const (
	expressionBefore = `^(?:.*,)?[ \t]*sandbox[ \t]*=[ \t]*`
	expressionBehind = `[ \t]*(?:[;,].*)?$`
)

// token matches the name of a header or of a query parameter: a token of RFC 9110, without the backtick. The attack that
// the backtick is left out for: controllers write names and values into rules of a language of their own, Traefik 3.5 between
// backticks. One in a value would end the text, and what is behind it would match requests without the selector, for any hostname.
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_|~-]+$")

// maxToken is how many characters such a name has at most, as in the Gateway API.
const maxToken = 256

// Headers that cannot carry the ID. The attacks: a selector that matches what each request has (host) or what an identity
// is told by (authorization, cookie, x-remote-user, impersonate-user) leads the requests of others to a copy, or has people
// send the ID in the place of a credential; the headers of a connection do not pass a proxy.
var (
	refusedHeaders = []string{
		"host", "authorization", "cookie", "connection", "keep-alive", "te", "trailer", "upgrade",
		"transfer-encoding", "forwarded",
	}
	refusedHeaderPrefixes = []string{"proxy-", "content-", "x-forwarded-", "x-remote-", "impersonate-"}
)

// CheckSelectorHeader refuses the name of a header that cannot carry the ID of a sandbox, with a *RefusedError. The schema of
// SandboxRoutes says the same; this is asked again because a CRD can be edited.
func CheckSelectorHeader(name string) error {
	if len(name) > maxToken || !token.MatchString(name) {
		return invalid("spec.selectorHeaderName: %q is not the name of a header; use at most %d letters, digits and -", name, maxToken)
	}
	lower := strings.ToLower(name)
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	if slices.Contains(refusedHeaders, lower) || slices.ContainsFunc(refusedHeaderPrefixes, hasPrefix) {
		return invalid("spec.selectorHeaderName: %s is a header of the connection, of an identity or of the content, which cannot carry the ID; name one of your own, or %s", lower, baggageHeader)
	}
	return nil
}
