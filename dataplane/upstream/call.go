// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/respond"
	"github.com/sandbar-dev/sandbar/pkg/relay"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Call is one request on its way to a pod, and what came of it.
type Call struct {
	// Writer takes the answer.
	*respond.Writer
	Request *http.Request
	Route   locate.Route
	// Caller is whose token must not reach the pod.
	Caller tenant.Caller
	Minder Minder

	// Sent is when the request went towards the pod: the caller of Carry sets it, and a further attempt
	// sets it anew.
	Sent time.Time
	// FirstByte is how long the pod then took to begin its answer; zero if it did not.
	FirstByte time.Duration
	// Cause is why the answer was cut, one of the refusal package's; empty if it was not, or if the refusal
	// says so.
	Cause string
	// Relay is set once the connection has switched protocols, and carries the rest.
	Relay *relay.Relay
}

// Minder looks after the whole of a request, of which a call is one part.
type Minder interface {
	// Overdue returns the limit that the request has reached, if any. It is asked at the last moment before
	// a pod hears of the request.
	Overdue(now time.Time) *refusal.Error
	// Asked begins the wait for a pod's answer anew, and Answered ends it.
	Asked(now time.Time)
	Answered()
	// AtEnd has something done when the request ends, an upgraded connection too.
	AtEnd(func())
}

// began notes that a pod has begun its answer.
func (c *Call) began() {
	c.Minder.Answered()
	c.FirstByte = time.Since(c.Sent)
}
