// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// The trailer of a pod's answer passes the same filter as its header, and so do the names that the header
// announces for it. Servers need not announce a field (RFC 9110 section 6.6.2 only asks them to), and those
// that sum up a body they are still making often do not.

// announce names the fields of a trailer in the header of the answer, and returns them.
func announce(c *Call, to *locate.Target, trailer http.Header) []string {
	if len(trailer) == 0 {
		return nil
	}
	headers.Answer(trailer, c.Route, to, c.Request.Host)
	names := slices.Collect(maps.Keys(trailer))
	for _, name := range names {
		c.Header().Add("Trailer", name)
	}
	return names
}

// addTrailer adds what followed the body to the answer. net/http sends a field that was not announced
// only by its prefix for that, and over HTTP/1.1 without a look at its name.
func addTrailer(c *Call, to *locate.Target, trailer http.Header, announced []string) {
	headers.RemoveHopByHop(trailer)
	headers.Answer(trailer, c.Route, to, c.Request.Host)
	for name, values := range trailer {
		switch {
		case slices.Contains(announced, name):
			c.Header()[name] = values
		case httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name):
			c.Header()[http.TrailerPrefix+name] = values
		}
	}
}
