// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

// A stream is cut when kcp no longer takes the caller's token. When that is, the token itself says
// if it is a JWT; so that the cut does not wait for the next of the usual looks, kcp is asked then.
//
// The token is read without being verified, so its end only adds looks: it puts none off, and kcp
// alone decides. Who writes an end of their own into a token that kcp takes all the same, because
// its issuer does not care, would otherwise have us ask without pause: an end that is past when the
// request begins adds nothing once lastEndLook has passed, and any adds at most one look in
// recheckAge until then. All streams with a token look at the same moments and share the answers.
//
// kcp may go on saying yes for a while: it keeps a yes for ten seconds, and gives tokens of service
// accounts a minute more than they say (go-jose's leeway). So it is asked again and again until both
// have passed.
const (
	// firstEndLook is how long after a token's end the first look comes: a kcp whose clock is a
	// little behind ours would otherwise still say yes, and keep that.
	firstEndLook = time.Second
	// lastEndLook is how long after a token's end the last one comes.
	lastEndLook = firstEndLook + 15*access.RecheckAge
	// readEndAfter is when the token of a request that lasts is read: most are over by then, and
	// reading it costs more than all else that there is to do for them here.
	readEndAfter = time.Second
)

// endLooks are the looks that the end of a token adds: the last one until now, and the first one
// after it; zero for none.
func endLooks(end, now time.Time) (last, next time.Time) {
	first, final := end.Add(firstEndLook), end.Add(lastEndLook)
	switch {
	case end.IsZero() || now.After(final):
		return time.Time{}, time.Time{}
	case now.Before(first):
		return time.Time{}, first
	}
	last = first.Add(now.Sub(first).Truncate(access.RecheckAge))
	if next = last.Add(access.RecheckAge); next.After(final) {
		next = time.Time{}
	}
	return last, next
}
