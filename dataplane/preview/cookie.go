// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"net/http"
	"strings"
	"time"
)

const (
	// CookieName is the name of the cookie that holds a session. Browsers take a cookie with
	// this prefix from its own host alone, over TLS and for all paths, so that no other host
	// can set it.
	CookieName = "__Host-sandbar-preview"
	// MaxCookieBytes bounds name and value of the cookie. Browsers keep no cookie above 4,096
	// bytes with its attributes.
	MaxCookieBytes = 3800

	// maxSessions bounds how many cookies of our name are tried: a page can set one of that
	// name itself, beside ours, and must not lock its visitor out with it.
	maxSessions = 4
)

// Fits tells whether a browser keeps a session.
func Fits(session string) bool { return len(CookieName)+1+len(session) <= MaxCookieBytes }

// Cookie carries a session. It is partitioned, so that a preview in the frame of one site is not
// the preview in the frame of another, and not restricted to its own site, without which it would
// not work in a frame at all; OriginAllowed does what SameSite would.
func Cookie(session string, lifetime time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: session, Path: "/", MaxAge: int(lifetime / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteNoneMode, Partitioned: true,
	}
}

// Sessions are the values of the cookies of our name in a request, the first few.
func Sessions(h http.Header) []string {
	var found []string
	for pair := range pairs(h["Cookie"]) {
		if value, ok := strings.CutPrefix(pair, CookieName+"="); ok && len(found) < maxSessions {
			found = append(found, value)
		}
	}
	return found
}

// Without takes the cookies that are to be dropped from a request's; nil if none is left.
func Without(cookies []string, drop func(name, value string) bool) []string {
	var kept []string
	for pair := range pairs(cookies) {
		if name, value, _ := strings.Cut(pair, "="); !drop(trim(name), value) {
			kept = append(kept, pair)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{strings.Join(kept, "; ")}
}

// Confine takes from the cookies that a pod sets what would act beyond its host, or on our own
// cookie. The path stays: the host is the app's.
func Confine(cookies []string) []string {
	var confined []string
	for _, cookie := range cookies {
		pair, attributes, _ := strings.Cut(cookie, ";")
		pair = trim(pair)
		// A cookie without a name whose value is "__Host-…=…" goes back to the server as if
		// it had that name.
		if name, _, ok := strings.Cut(pair, "="); !ok || trim(name) == "" || isOurs(trim(name)) {
			continue
		}
		kept := []string{pair}
		for attribute := range strings.SplitSeq(attributes, ";") {
			attribute = trim(attribute)
			name, _, _ := strings.Cut(attribute, "=")
			if name = trim(name); name != "" && !strings.EqualFold(name, "Domain") {
				kept = append(kept, attribute)
			}
		}
		confined = append(confined, strings.Join(kept, "; "))
	}
	return confined
}

// pairs yields the cookies of Cookie headers, trimmed.
func pairs(cookies []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range cookies {
			for pair := range strings.SplitSeq(line, ";") {
				if pair = trim(pair); pair != "" && !yield(pair) {
					return
				}
			}
		}
	}
}

// isOurs tells whether a name is the session's, also for a reader that looks at names without
// case.
func isOurs(name string) bool { return strings.EqualFold(name, CookieName) }

// trim takes off spaces and control characters, whatever some reader may take for a space.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f && r <= 0xa0 })
}
