// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

const (
	// maxAnswer bounds an answer of an issuer; keys and discovery documents have a few KiB. The libraries cut off at 1 MiB or
	// read without an end.
	maxAnswer = 512 << 10
	// exchangeTimeout bounds each exchange with it.
	exchangeTimeout = 20 * time.Second
)

// URLError means that an issuer, or one of its endpoints, is not a place for a login.
type URLError struct {
	// What is the name of the endpoint in the issuer's metadata, or "issuer".
	What, URL string
}

// Error implements error.
func (e *URLError) Error() string {
	return fmt.Sprintf("the %s %q is not an https URL (http is for this machine alone)", e.What, e.URL)
}

// RedirectError means that an issuer answered a request with a redirect. It was not followed.
type RedirectError struct{ From, To string }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to %q, and a login does not follow a redirect", e.From, e.To)
}

// SizeError means that an answer has more bytes than the bound.
type SizeError struct{ From string }

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the answer of %s has more than %d bytes", e.From, maxAnswer)
}

// checkURL refuses a URL that a login must not go to.
func checkURL(what, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return &URLError{what, text}
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()) {
		return nil
	}
	return &URLError{what, text}
}

// loopback reports whether a host is this machine. Names other than localhost could be resolved to any address.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// bounded is the transport of all exchanges with an issuer.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkURL("address", req.URL.String()); err != nil {
		return nil, err
	}
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	from := req.URL.Scheme + "://" + req.URL.Host
	if to := res.Header.Get("Location"); res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close()
		return nil, &RedirectError{From: from, To: to}
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: maxAnswer, from: from}
	return res, nil
}

// boundedBody fails after so many bytes, where io.LimitReader would cut off.
type boundedBody struct {
	io.ReadCloser
	left int
	from string
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &SizeError{b.from}
	}
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, &SizeError{b.from}
	}
	return n, err
}

// newHTTPClient returns a client for an issuer whose certificate ca verifies, or the system's roots without it.
func newHTTPClient(ca []byte) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA bundle of the issuer holds no PEM certificate")
		}
	}
	pool := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: exchangeTimeout,
		DialContext: (&net.Dialer{Timeout: exchangeTimeout}).DialContext,
		// A connection that is used again can break under a request, which net/http then sends once more.
		DisableKeepAlives: true,
	}
	return &http.Client{
		Transport: bounded{pool}, Timeout: exchangeTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
