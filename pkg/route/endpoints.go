// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Endpoint is where requests of a rule begin.
type Endpoint struct {
	// Rule is the name of the rule.
	Rule string
	// Hostname is that of the route; it may be a wildcard.
	Hostname string
	// Path is that of a match, / without one, and empty for a regular expression.
	Path string
	// URL has both. It is empty for a wildcard, which cannot be opened, and without a path for a regular expression.
	URL string
}

// Endpoints lists where requests begin: for each rule, hostname and match, in their order, each once. listeners are those that the
// route is attached to; they say whether a hostname is asked by http or https.
func Endpoints(hostnames []string, rules []sandbarv1alpha1.SandboxRouteRule, listeners []Listener) []Endpoint {
	var all []Endpoint
	for i := range rules {
		for _, hostname := range hostnames {
			for _, path := range paths(rules[i].Matches) {
				e := Endpoint{Rule: rules[i].Name, Hostname: hostname, Path: path}
				if !isWildcard(hostname) {
					e.URL = schemeOf(hostname, listeners) + "://" + hostname + path
				}
				all = append(all, e)
			}
		}
	}
	return all
}

// paths are those of matches, each once.
func paths(matches []sandbarv1alpha1.SandboxRouteMatch) []string {
	if len(matches) == 0 {
		return []string{"/"}
	}
	var all []string
	for i := range matches {
		kind, path := pathOf(matches[i].Path)
		if kind == sandbarv1alpha1.RoutePathExpression {
			path = ""
		}
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}
