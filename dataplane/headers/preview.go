// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net/http"
	"net/url"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

// forPreviewPod completes the header of a request from a preview's host to the pod: the app is at
// the root of an origin of its own.
func forPreviewPod(h http.Header, host string) {
	h.Set(Host, host)
	h.Set(Proto, "https")
}

// forPreviewBrowser takes from the header, or the trailer, of a pod's answer what would reach
// beyond the preview's origin.
func forPreviewBrowser(h http.Header, host string) {
	if confined := preview.Confine(h["Set-Cookie"]); confined != nil {
		h["Set-Cookie"] = confined
	} else {
		h.Del("Set-Cookie")
	}
	if location := h.Get("Location"); location != "" {
		h.Set("Location", ownLocation(location, host))
	}
}

// MarkPreview says to browsers and to caches in between what a preview's answer is.
func MarkPreview(h http.Header) {
	KeepPrivate(h)
	// Keeps a page from joining the origins of other previews below the domain with
	// document.domain.
	h.Set("Origin-Agent-Cluster", "?1")
}

// ownLocation turns a redirect to the Host that the app sees into one to the preview's. All
// others stay as they are.
func ownLocation(location, host string) string {
	u, err := url.Parse(location)
	if err != nil || u.Hostname() != PodHost || (u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https") {
		return location
	}
	// The whole of it, since "//" at the beginning of a path alone would name another host.
	u.Scheme, u.Host, u.User = "https", host, nil
	return u.String()
}
