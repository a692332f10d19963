// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

const (
	headerControlToken = "X-Sandbox-Control-Token" //nolint:gosec // the header's name
	headerPrefix       = "X-Forwarded-Prefix"
	headerHost         = "X-Forwarded-Host"
	headerProto        = "X-Forwarded-Proto"

	// podHost is the Host that pods see. Development servers refuse names that they do not
	// know (against DNS rebinding) but know this one; the public name is in X-Forwarded-Host.
	podHost = "localhost"
)

// The lists hold canonical names, as the maps of net/http do.

// hopByHop are the headers that end at this hop (RFC 9110 section 7.6.1, and what the
// obsolete RFC 2616 named).
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// withheldFromPods are headers that no pod gets from a caller: credentials, and what a pod
// could take for a statement of a proxy that it trusts.
var withheldFromPods = []string{
	"Authorization", headerControlToken, "Forwarded", "X-Real-Ip", "Proxy-Authorization",
	// What systems in front note of a caller for each other. A traceparent is two random
	// numbers, and passes.
	"Baggage", "Tracestate",
}

// withheldPrefixes are the same by prefix: identities that a front proxy or a hub states, and
// where a request came from.
var withheldPrefixes = []string{"X-Remote-", "Impersonate-", "X-Forwarded-", "X-Kedge-"}

// withheldFromCallers are headers of a pod that would act beyond its preview: on the whole
// host, on other previews, or on the connection.
var withheldFromCallers = []string{
	"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc",
	"Public-Key-Pins", "Nel", "Report-To", "Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid",
	"X-Kubernetes-Pf-Prioritylevel-Uid", headerControlToken,
}

// removeHopByHop removes the headers of this hop, and those that Connection names.
func removeHopByHop(h http.Header) {
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

// filterRequest turns the header of a caller's request into that of a request to a pod. Hop-by-hop
// headers must be gone before, so that "Connection: X-Sandbox-Control-Token" cannot remove what
// is set here (Rancher, CVE-2021-31999).
func filterRequest(h http.Header, in *http.Request, r route, t *target, hub hubCookies) {
	for name := range h {
		if withheld(name) {
			delete(h, name)
		}
	}
	if t.proxy {
		hub.strip(h)
	} else {
		delete(h, "Cookie") // cookies are a preview's; the runner has none
	}
	if offers, ok := h[protocolHeader]; ok {
		if kept := withoutBearerProtocol(offers); kept != nil {
			h[protocolHeader] = kept
		} else {
			delete(h, protocolHeader)
		}
	}
	if token := t.token.reveal(); token != "" && !t.proxy {
		h[headerControlToken] = []string{token}
	}
	switch {
	case t.proxy && r.previewHost != "":
		forPreviewPod(h, r.previewHost)
	case t.proxy:
		values := [...]string{r.prefix, in.Host, scheme(in)}
		h[headerPrefix], h[headerHost], h[headerProto] = values[0:1:1], values[1:2:2], values[2:3:3]
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // keeps net/http from adding its own
	}
}

// withheld tells whether a header of a caller must not reach a pod. Names with underscores go
// too: CGI and its heirs read X_Remote_User as X-Remote-User (oauth2-proxy, CVE-2025-64484).
func withheld(name string) bool {
	if strings.ContainsRune(name, '_') {
		return true
	}
	// net/http canonicalises names as it reads them, but for names that it does not know how
	// to; compare without case all the same.
	for _, w := range withheldFromPods {
		if strings.EqualFold(name, w) {
			return true
		}
	}
	for _, prefix := range withheldPrefixes {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// filterResponse removes from a pod's answer what would act beyond its preview. Redirects are
// passed to the caller and never followed.
func filterResponse(h http.Header, r route, t *target, host string) {
	for _, name := range withheldFromCallers {
		delete(h, name)
	}
	if r.previewHost == "" {
		// On a host that instances share, a service worker must not leave its folder.
		delete(h, "Service-Worker-Allowed")
	}
	if !t.proxy {
		delete(h, "Set-Cookie")
		return
	}
	if r.previewHost != "" {
		forPreviewBrowser(h, r.previewHost)
		return
	}
	confineCookies(h, r.prefix)
	if location := h.Get("Location"); location != "" {
		h.Set("Location", confineLocation(location, r.prefix, host))
	}
}

// contain keeps an answer to a control verb from acting in a browser as more than text. A runner is
// its tenant's to change, so a log can be a page; where a hub adds its users' tokens by a cookie,
// that page would else run on the hub's own origin with the rights of whoever follows a link to it.
func contain(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
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
	own := u.Host == "" || u.Host == host || u.Hostname() == podHost
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
