// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"mime"
	"net/http"
	"strings"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

// A pod is its tenant's, and an answer of it passes through fronts that obey some headers: they
// serve a file of theirs in its place, store it for others, or stop sending requests to the data
// plane. Nothing of that is a pod's to order. Of a control verb's answer only what the verbs need
// passes; the app behind proxy and previews may send any header but these.

// withheldAnswers are answer headers of pods that no caller, and so no front, gets.
// docs/headers.md shows the table.
var withheldAnswers = []known{
	{"X-Accel-*", "nginx: serves an internal location instead, stores the answer, sets its rate and charset"},
	{"X-Sendfile*", "lighttpd, Apache mod_xsendfile, Cherokee, Hiawatha: serve a file of the front's instead"},
	{"X-Lighttpd-*", "lighttpd: serves a file instead, removes it, sets the rate"},
	{"X-Litespeed-*", "LiteSpeed: serves another location instead, stores and purges answers"},
	{"X-Lscache*", "LiteSpeed: stores answers"},
	{"Lsc-*", "LiteSpeed: sets a cookie of the front's"},
	{"X-Replace-Session", "Apache mod_session, as its documentation has it: replaces the user's session"},
	{"X-Middleware-Rewrite", "Next.js: serves another location instead"},
	{"X-Reproxy-*", "Perlbal and others: fetch a URL, a file or another service instead"},
	{"X-Appengine-*", "Google App Engine: serves a blob instead"},
	{"X-Google-*", "Google front ends: cache and fetch orders"},
	{"Grip-*", "Pushpin, Fastly Fanout: hold the connection and subscribe it to a channel"},
	{"Sec-Websocket-Extensions-Grip", "Pushpin: the same for WebSockets"},
	{"X-Hiawatha-*", "Hiawatha: stores and purges answers"},
	{"X-Accelerator-Vary", "Squid: by what stored answers differ"},
	{"Pagespeed*", "mod_pagespeed: rewrites pages"},
	{"X-Esi*", "Varnish and others by convention: have the page's includes fetched"},
	{"Surrogate-*", "Varnish, Fastly, Squid, Akamai: store and name the answer, have its includes fetched"},
	{"Xkey", "Varnish: names stored answers"},
	{"Cdn-Cache-Control", "RFC 9213: CDNs store the answer"},
	{"Cloudflare-Cdn-Cache-Control", "Cloudflare: stores the answer"},
	{"Cf-Edge-Cache", "Cloudflare: stores the answer"},
	{"Vercel-*", "Vercel: stores and names the answer"},
	{"X-Vercel-*", "Vercel: the same, and rewrites"},
	{"Netlify-*", "Netlify: stores and names the answer"},
	{"Akamai-*", "Akamai: stores the answer"},
	{"X-Akamai-*", "Akamai: the same"},
	{"Edge-*", "Akamai: stores and names the answer"},
	{"Fastly-*", "Fastly: orders to the next node"},
	{"Fly-*", "Fly.io: replays the request at another app"},
	{"X-Fastly-*", "Fastly: orders to its image service"},
	{"Cache-Tag*", "Cloudflare, Google Cloud CDN: name stored answers"},
	{"Cdn-Tag", "CDNs: names stored answers"},
	{"Incap-*", "Imperva: names stored answers"},
	{"X-Cache-Tags", "Varnish by convention: names stored answers"},
	{"X-Envoy-*", "Envoy and Istio: take the data plane for unhealthy, degraded or overloaded"},
	{"X-Endpoint-Load-Metrics*", "Envoy and gRPC (ORCA): steer the load"},
	{"Endpoint-Load-Metrics*", "the same"},
	{"L5d-*", "Linkerd: closes connections, takes the answer for a proxy's error, retries it"},
	{"Proxy-*", "HTTP proxies: ask for a proxy's credential"},
	{"X-Sandbox-Control-*", "the data plane"},
	{"Audit-Id", "Kubernetes API servers and the data plane itself"},
	{"X-Kubernetes-Pf-*", "Kubernetes API servers"},
	{"X-Remote-*", "Kubernetes and kcp, where a front copies headers of an answer into a request"},
	{"Impersonate-*", "the same"},

	{"Clear-Site-Data", "browsers: empties the whole origin"},
	{"Strict-Transport-Security", "browsers: for the whole host and those below"},
	{"Public-Key-Pins*", "browsers: for the whole host"},
	{"Alt-Svc", "browsers: have the whole origin come from elsewhere"},
	{"Nel", "browsers: report on the whole origin"},
	{"Report-To", "browsers: report on the whole origin"},
	{"Set-Login", "browsers: the origin's sign-in status"},
	{"Set-Cookie2", "browsers of long ago, and some libraries: a cookie that nobody confines"},
	{"Use-As-Dictionary", "browsers: how answers of the whole origin are compressed"},
	{"Secure-Session-*", "browsers: bind the origin's cookies to a device"},
	{"Sec-Session-*", "browsers: the same, by its former name"},
}

// controlAnswers are the answer headers of a control verb that pass. A verb that needs one of its
// own names it X-Sandbox-….
var controlAnswers = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Disposition", "Content-Range",
	"Accept-Ranges", "Etag", "Last-Modified", "Date", "Retry-After", "Allow", "X-Sandbox-*",
	"Sec-Websocket-Accept", "Sec-Websocket-Extensions", access.ProtocolHeader, "Sec-Websocket-Version",
}

var (
	withheldAnswerSet = newHeaderSet(namesOf(withheldAnswers))
	controlAnswerSet  = newHeaderSet(controlAnswers)
)

// Buffering is nginx's: with the value "no" it passes an answer on as it comes, which asks
// for less of the front and not for more.
const Buffering = "X-Accel-Buffering"

// stripAnswer takes from the header, or the trailer, of a pod's answer what is not a pod's to say.
func stripAnswer(h http.Header, isApp bool) {
	unbuffered := isApp && len(h[Buffering]) == 1 && strings.EqualFold(h.Get(Buffering), "no")
	for name := range h {
		if withheldAnswerSet.has(name) || !isApp && !controlAnswerSet.has(name) {
			delete(h, name)
		}
	}
	if unbuffered {
		h.Set(Buffering, "no")
	}
	// Pushpin takes a body of this type for orders.
	if kind, _, err := mime.ParseMediaType(h.Get("Content-Type")); err == nil && kind == "application/grip-instruct" {
		h.Set("Content-Type", "application/octet-stream")
	}
}

// Contain keeps an answer to a control verb from acting in a browser as more than text, and from
// being stored by anybody. A runner is its tenant's to change, so a log can be a page; where a hub
// adds its users' tokens by a cookie, that page would else run on the hub's own origin with the
// rights of a user who follows a link to it.
func Contain(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Cache-Control", "no-store")
}

// KeepPrivate takes from a Cache-Control what lets caches between the data plane and the caller
// keep an answer: it is for the caller who was authorized, and a cache would give it to others.
func KeepPrivate(h http.Header) {
	kept := []string{"private"}
	for _, value := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(value, ",") {
			directive = strings.TrimFunc(directive, isSpaceToSome)
			name, _, _ := strings.Cut(directive, "=")
			switch strings.ToLower(strings.TrimFunc(name, isSpaceToSome)) {
			case "", "private", "public", "s-maxage", "proxy-revalidate", "must-understand":
			default:
				kept = append(kept, directive)
			}
		}
	}
	h["Cache-Control"] = []string{strings.Join(kept, ", ")}
}

// isSpaceToSome reports whether some reader may take a character for a space.
func isSpaceToSome(r rune) bool { return r <= ' ' || r >= 0x7f && r <= 0xa0 }
