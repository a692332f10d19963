// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import "net/http"

// OriginAllowed tells whether a request that carries a session may use it; own is the preview's
// origin, https://host. The cookie goes along with requests that other pages make the browser
// send, and such requests must do nothing (CSRF) and tell nothing: another preview is a hostile
// page on a neighbouring host.
//
// What passes:
//
//	request                                                          why
//	a WebSocket handshake from the own origin                        browsers apply no CORS to WebSockets
//	Sec-Fetch-Site: same-origin or none                              the page itself; the address bar
//	a navigation of a window or a frame, by GET or HEAD              links to a preview; its answer is a page of its own
//	no Sec-Fetch-Site, and the own Origin, or GET or HEAD without    an old browser, or no browser
//
// Frames are let through: a product shows previews in frames. An app that minds says so with
// frame-ancestors.
func OriginAllowed(method string, h http.Header, upgrade bool, own string) bool {
	origin, hasOrigin, ok := single(h["Origin"])
	if !ok {
		return false
	}
	if upgrade {
		return origin == own
	}
	site, hasSite, ok := single(h["Sec-Fetch-Site"])
	if !ok {
		return false
	}
	reads := method == http.MethodGet || method == http.MethodHead
	if !hasSite {
		return origin == own || !hasOrigin && reads
	}
	if site == "same-origin" || site == "none" {
		return true
	}
	return reads && Navigates(h)
}

// Navigates tells whether a browser asks for a page to show in a window or a frame.
func Navigates(h http.Header) bool {
	mode, _, modeOK := single(h["Sec-Fetch-Mode"])
	destination, _, destinationOK := single(h["Sec-Fetch-Dest"])
	if !modeOK || !destinationOK || mode != "navigate" {
		return false
	}
	// Not "embed" and "object", which nobody needs.
	return destination == "document" || destination == "iframe" || destination == "frame"
}

// single returns the only value of a header; ok is false when there are several, which two
// readers may read differently.
func single(values []string) (value string, present, ok bool) {
	switch len(values) {
	case 0:
		return "", false, true
	case 1:
		return values[0], true, true
	}
	return "", true, false
}
