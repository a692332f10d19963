// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
)

// frontsOrders are headers that fronts, caches and browsers obey. They are written out, so that a
// name which is lost from the table is missed.
var frontsOrders = []string{
	"X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Charset", "X-Sendfile", "X-Sendfile2", "X-Sendfile-Temporary",
	"X-Lighttpd-Send-File", "X-Lighttpd-Send-Tempfile", "X-Lighttpd-Kbytes-Per-Second", "X-Litespeed-Location", "X-Litespeed-Cache-Control", "X-Litespeed-Purge",
	"X-Reproxy-Url", "X-Reproxy-File", "X-Reproxy-Service", "X-Reproxy-Expected-Size", "X-Appengine-Blobkey", "Grip-Hold", "Grip-Channel", "Grip-Link",
	"Surrogate-Control", "Surrogate-Key", "Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control", "Vercel-Cdn-Cache-Control", "Netlify-Cdn-Cache-Control",
	"Akamai-Cache-Control", "Edge-Control", "Edge-Cache-Tag", "Cache-Tag", "Cache-Tags", "Cf-Edge-Cache", "Xkey", "X-Accelerator-Vary",
	"X-Envoy-Immediate-Health-Check-Fail", "X-Envoy-Degraded", "X-Envoy-Overloaded", "X-Envoy-Ratelimited", "X-Endpoint-Load-Metrics", "Endpoint-Load-Metrics-Bin",
	"L5d-Proxy-Connection", "L5d-Proxy-Error", "L5d-Retryable", "Pagespeedfilters", "Proxy-Authenticate",
	"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins", "Nel", "Report-To", "Set-Login", "Secure-Session-Registration",
	"Audit-Id", headers.ControlToken, "X-Kubernetes-Pf-Flowschema-Uid", "X-Remote-User", "Impersonate-User",
}

// appsAnswers are what apps answer, and their clients need.
var appsAnswers = []string{
	"X-Powered-By", "X-Ratelimit-Limit", "X-Frame-Options", "Access-Control-Allow-Origin", "Link", "Www-Authenticate", "Server", "X-Sandbox-Log-Offset",
	"Etag", "Content-Disposition", "Content-Language", "X-Acme", "X-Google", "Edges", "Cachetag",
}

// verbsAnswers are those of them that a control verb answers too.
var verbsAnswers = []string{"X-Sandbox-Log-Offset", "Etag", "Content-Disposition", "Content-Language"}

func orders(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s: x\r\n", name)
	}
	return b.String()
}

// What a pod may send back is decided in one place for all the ways to it: the header, the trailer,
// answers before the answer, and the 101.
func TestWhatFrontsObeyIsNotAPodsToSay(t *testing.T) {
	all := orders(slices.Concat(frontsOrders, appsAnswers)...)
	plain := "HTTP/1.1 200 OK\r\n" + all + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
	hints := "HTTP/1.1 103 Early Hints\r\n" + all + "\r\n" + plain
	refused := strings.Replace(plain, "200 OK", "409 Conflict", 1)
	chunked := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nTrailer: " + strings.Join(slices.Concat(frontsOrders, appsAnswers), ", ") +
		"\r\n\r\n2\r\nok\r\n0\r\n" + all + "\r\n"
	sudden := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + all + "\r\n"
	const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	switched := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Accept: x\r\n" + all + "\r\n"
	for name, answer := range map[string]struct {
		raw     string
		upgrade bool
		trailer bool
	}{
		"a header":               {raw: plain},
		"early hints":            {raw: hints},
		"a trailer":              {raw: chunked, trailer: true},
		"an unannounced trailer": {raw: sudden, trailer: true},
		"a refused upgrade":      {raw: refused, upgrade: true},
		"an upgrade":             {raw: switched, upgrade: true},
	} {
		w := newPreviewWorld(t, rawAnswer(answer.raw))
		session := w.enter(w.link(""))
		for way, request := range map[string]string{
			"the app by path": "GET " + demo + "proxy/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\n",
			"a preview":       "GET /x HTTP/1.1\r\nHost: " + previewHost + "\r\nOrigin: https://" + previewHost + "\r\nCookie: __Host-sandbar-preview=" + session + "\r\n",
			"a control verb":  "GET " + demo + "echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\n",
			"a stream":        "GET " + demo + "log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\n",
		} {
			if answer.upgrade && way == "a stream" {
				continue // it takes none
			}
			t.Run(name+" of "+way, func(t *testing.T) {
				conn := w.dial()
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				if answer.upgrade {
					request += handshake
				}
				_, _ = io.WriteString(conn, request+"\r\n")
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				got := res.Header
				if answer.trailer {
					got = res.Trailer
				}
				if res.StatusCode == http.StatusEarlyHints {
					t.Fatal("early hints of the pod reached the caller")
				}
				for _, order := range frontsOrders {
					if _, ok := got[order]; ok {
						t.Errorf("%s reached the caller", order)
					}
				}
				app := way == "the app by path" || way == "a preview"
				for _, word := range appsAnswers {
					want := app || slices.Contains(verbsAnswers, word)
					if name == "an unannounced trailer" && word == "Www-Authenticate" {
						want = false // a trailer must not have it (RFC 9110 section 6.5.1)
					}
					if _, ok := got[word]; ok != want {
						t.Errorf("%s reached the caller: %t, want %t", word, ok, want)
					}
				}
			})
		}
	}
}

// The headers of a control verb's answer are all known here: whatever its pod says beside these ends.
func TestAControlVerbsAnswerHasNothingButWhatVerbsNeed(t *testing.T) {
	const needed = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-1/9\r\nAccept-Ranges: bytes\r\nEtag: \"a\"\r\n" +
		"Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Disposition: attachment\r\nContent-Language: en\r\nRetry-After: 1\r\nAllow: GET\r\nX-Sandbox-Log-Id: 7\r\n"
	w := newWorld(t, rawAnswer("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"+needed+
		"Location: https://elsewhere.test/\r\nRefresh: 0; url=https://elsewhere.test/\r\nWww-Authenticate: Basic\r\nServer: s\r\nCache-Control: public\r\n"+
		"Vary: *\r\nLink: </x>; rel=preload\r\nAccess-Control-Allow-Origin: *\r\nSet-Cookie: a=1\r\nX-Anything: 1\r\nContent-Length: 2\r\n\r\nok"))
	res, _ := w.do("POST", demo+"sync", adminToken, nil)
	res.Header.Del("Date")
	want := []string{
		"Accept-Ranges", "Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
		"Content-Security-Policy", "Content-Type", "Etag", "Last-Modified", "Retry-After", "X-Content-Type-Options", "X-Sandbox-Log-Id",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(res.Header))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := res.Header["Cache-Control"]; !slices.Equal(got, []string{"no-store"}) {
		t.Errorf("Cache-Control is %q", got)
	}
}

// An app's answer by path is for the caller who was authorized, as a preview's is.
func TestNoCacheInFrontKeepsAnAppsAnswer(t *testing.T) {
	w := newPreviewWorld(t, rawAnswer("HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60, s-maxage=600\r\nContent-Length: 2\r\n\r\nok"))
	session := w.enter(w.link(""))
	byPath, _ := w.do("GET", demo+"proxy/x", adminToken, nil)
	preview, _ := w.browse("GET", "/x", session)
	for name, res := range map[string]*http.Response{"by path": byPath, "a preview": preview} {
		if got := res.Header["Cache-Control"]; !slices.Equal(got, []string{"private, max-age=60"}) {
			t.Errorf("%s: Cache-Control is %q", name, got)
		}
	}
}

// An app may ask nginx to pass its answer on as it comes, and to nothing else; of what is a stream
// the data plane says so itself.
func TestBufferingInFront(t *testing.T) {
	for name, c := range map[string]struct{ verb, header, want string }{
		"an app asks for none":             {"proxy/x", "X-Accel-Buffering: no\r\n", "no"},
		"in another case":                  {"proxy/x", "x-accel-buffering: No\r\n", "no"},
		"an app asks for it":               {"proxy/x", "X-Accel-Buffering: yes\r\n", ""},
		"an app asks for both":             {"proxy/x", "X-Accel-Buffering: no\r\nX-Accel-Buffering: yes\r\n", ""},
		"an app says nothing":              {"proxy/x", "", ""},
		"an app sends events":              {"proxy/x", "Content-Type: text/event-stream\r\n", "no"},
		"a stream":                         {"log", "", "no"},
		"a control verb that is no stream": {"echo", "X-Accel-Buffering: no\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rawAnswer("HTTP/1.1 200 OK\r\n"+c.header+"Content-Length: 2\r\n\r\nok"))
			res, _ := w.do("GET", demo+c.verb, adminToken, nil)
			if got := strings.Join(res.Header["X-Accel-Buffering"], "|"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
