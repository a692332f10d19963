// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// ControlToken is how a pod that takes no proofs is shown that a request is the data plane's.
	ControlToken = "X-Sandbox-Control-Token" //nolint:gosec // the header's name
	// Prefix tells an app under which path its caller sees it.
	Prefix = "X-Forwarded-Prefix"
	// Host tells it under which host.
	Host = "X-Forwarded-Host"
	// Proto tells it whether that is by TLS.
	Proto = "X-Forwarded-Proto"

	// PodHost is the Host that pods see. Development servers refuse names that they do not
	// know (against DNS rebinding) but know this one; the public name is in X-Forwarded-Host.
	PodHost = "localhost"
)

// The lists hold canonical names, as the maps of net/http do.

// hopByHop are the headers that end at this hop (RFC 9110 section 7.6.1, and what the
// obsolete RFC 2616 named).
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// RemoveHopByHop removes the headers of this hop, and those that Connection names.
func RemoveHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for token := range strings.SplitSeq(value, ",") {
			// Del canonicalises: a token in lower case names the header as well
			// (Traefik, CVE-2026-29054).
			h.Del(textproto.TrimString(token))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// Request turns the header of a caller's request into that of a request to a pod. Hop-by-hop
// headers must be gone before, so that "Connection: X-Forwarded-Host" cannot remove what is set
// here (Rancher, CVE-2021-31999). What shows the pod that the request is ours comes afterwards, and
// depends on the pod: see credential.
func (f *Filter) Request(h http.Header, in *http.Request, r locate.Route, t *locate.Target, caller tenant.Caller) {
	f.strip(h, caller)
	if t.Proxy {
		f.stripCookies(h, caller)
	} else {
		delete(h, "Cookie") // cookies are a preview's; the runner has none
	}
	if offers, ok := h[access.ProtocolHeader]; ok {
		if kept := access.WithoutBearerProtocol(offers, caller); kept != nil {
			h[access.ProtocolHeader] = kept
		} else {
			delete(h, access.ProtocolHeader)
		}
	}
	switch {
	case t.Proxy && r.PreviewHost != "":
		forPreviewPod(h, r.PreviewHost)
	case t.Proxy:
		values := [...]string{r.Prefix, in.Host, scheme(in)}
		h[Prefix], h[Host], h[Proto] = values[0:1:1], values[1:2:2], values[2:3:3]
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // keeps net/http from adding its own
	}
}

// Handshake turns the header of a request to a pod into that of a WebSocket handshake. Servers that guard
// against other pages compare a browser's Origin with what they were asked for, and an app is asked for
// PodHost, with which the caller's never agrees; many refuse a socket without one, too. So an app gets the
// origin that it computes for itself. Pages of other origins have been refused before (preview.OriginAllowed),
// or do not have the caller's token.
func Handshake(h http.Header, proxy bool) {
	if _, ok := h["Origin"]; !ok {
		return // no browser
	}
	if !proxy {
		delete(h, "Origin") // a control server serves no page
		return
	}
	h.Set("Origin", h.Get(Proto)+"://"+PodHost)
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// Answer removes from the header, or the trailer, of a pod's answer what would act beyond
// its preview or on a front. Redirects are passed to the caller and never followed.
func Answer(h http.Header, r locate.Route, t *locate.Target, host string) {
	stripAnswer(h, t.Proxy)
	if !t.Proxy {
		return
	}
	if r.PreviewHost != "" {
		forPreviewBrowser(h, r.PreviewHost)
		return
	}
	// On a host that instances share, a service worker must not leave its folder.
	delete(h, "Service-Worker-Allowed")
	confineCookies(h, r.Prefix)
	if location := h.Get("Location"); location != "" {
		h.Set("Location", confineLocation(location, r.Prefix, host))
	}
}

// confineCookies takes the Domain from each cookie, so that it stays with this host, and moves
// its Path below the preview's prefix, so that other instances on the host do not get it. A
// cookie named __Host-… demands Path=/ and is therefore refused by browsers here; it works on a
// preview's own host name.
func confineCookies(h http.Header, prefix string) {
	cookies := h["Set-Cookie"]
	if len(cookies) == 0 {
		return
	}
	confined := make([]string, 0, len(cookies))
	for _, cookie := range cookies {
		pair, attributes, _ := strings.Cut(cookie, ";")
		if !strings.Contains(pair, "=") {
			continue
		}
		kept, path := []string{strings.TrimSpace(pair)}, "/"
		for attribute := range strings.SplitSeq(attributes, ";") {
			attribute = strings.TrimSpace(attribute)
			name, value, _ := strings.Cut(attribute, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "", "domain":
			case "path":
				path = strings.TrimSpace(value)
			default:
				kept = append(kept, attribute)
			}
		}
		confined = append(confined, strings.Join(append(kept, "Path="+under(prefix, path)), "; "))
	}
	h["Set-Cookie"] = confined
}

// under moves a path below a prefix, unless it is there already.
func under(prefix, path string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/"
	}
	if path == prefix || strings.HasPrefix(path, prefix+"/") {
		return path
	}
	return prefix + path
}

// confineLocation moves a redirect within the app below the prefix, since the app does not see
// the prefix in its paths. "/login" and "http://localhost/login" become "<prefix>/login", as
// does our own host's; a relative reference and any other host stay as they are.
func confineLocation(location, prefix, host string) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	own := u.Host == "" || u.Host == host || u.Hostname() == PodHost
	if !own || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") && u.Host == "" {
		return location
	}
	rest := u.EscapedPath()
	if u.RawQuery != "" {
		rest += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		rest += "#" + u.EscapedFragment()
	}
	return under(prefix, rest)
}
