// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Forward is a handler that serves what the instance serves, with the caller's credential, at
// the root. Whoever reaches the handler acts as the caller on this instance, so serve it on a
// loopback address only. It answers requests for loopback host names alone: a page that the
// person has open elsewhere could otherwise come in by a name that resolves to the loopback
// address (DNS rebinding), and reach the instance as the person.
func (i *Instance) Forward() http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:      i.plane.http.Transport,
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
		Rewrite:        i.rewrite,
		ModifyResponse: i.unprefix,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("calling the data plane: %v", err), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkLocal(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func (i *Instance) rewrite(p *httputil.ProxyRequest) {
	u := i.URL("proxy", "", nil)
	prefix := u.EscapedPath()
	u.Path += p.In.URL.Path
	u.RawPath = prefix + p.In.URL.EscapedPath()
	u.RawQuery = p.In.URL.RawQuery
	p.Out.URL, p.Out.Host = u, ""
	p.Out.Header.Del("Authorization") // the app's own scheme cannot pass beside ours
}

// unprefix takes from an answer the path under which the data plane serves the instance.
func (i *Instance) unprefix(res *http.Response) error {
	prefix := i.URL("proxy", "", nil).EscapedPath()
	if location := res.Header.Get("Location"); location != "" {
		if rest, ok := strings.CutPrefix(location, prefix); ok && (rest == "" || rest[0] == '/') {
			res.Header.Set("Location", "/"+strings.TrimPrefix(rest, "/"))
		}
	}
	for n, cookie := range res.Header["Set-Cookie"] {
		res.Header["Set-Cookie"][n] = strings.Replace(cookie, "; Path="+prefix, "; Path=", 1)
	}
	return nil
}

var errForeignPage = errors.New("this address is for programs and pages of this machine only")

// checkLocal refuses requests that a foreign page may have caused.
func checkLocal(r *http.Request) error {
	if !isLoopback(r.Host) {
		return errForeignPage
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !isLoopback(u.Host) {
			return errForeignPage
		}
	}
	return nil
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
