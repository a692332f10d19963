// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"

// Listener is one of a Gateway (Gateway API).
type Listener struct {
	Name string `json:"name"`
	// Hostname is the one that it takes requests for; empty for all.
	Hostname string `json:"hostname"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

// protocolHTTP is that of a listener without TLS.
const protocolHTTP = "HTTP"

// ListenersOf are those listeners of a Gateway that a parent of a route means.
func ListenersOf(all []Listener, p *sandbarv1alpha1.SandboxRouteParent) (meant []Listener) {
	for _, l := range all {
		if (p.SectionName == "" || p.SectionName == l.Name) && (p.Port == 0 || p.Port == l.Port) {
			meant = append(meant, l)
		}
	}
	return meant
}

// schemeOf is http for a hostname whose requests all listeners take without TLS, and else https: of a Gateway that has both the
// former is there to send people to the latter, as a rule.
func schemeOf(hostname string, listeners []Listener) string {
	plain := false
	for _, l := range listeners {
		switch {
		case !intersect(l.Hostname, hostname):
		case l.Protocol != protocolHTTP:
			return "https"
		default:
			plain = true
		}
	}
	if plain {
		return "http"
	}
	return "https"
}
