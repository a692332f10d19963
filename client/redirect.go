// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// RedirectError means that kcp, or a server in its place, answered with a redirect. It was not followed.
type RedirectError struct {
	// From is the server that was called, and To what it named.
	From, To string
}

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to %q, and a credential does not follow a redirect: correct the server's URL in the kubeconfig", e.From, e.To)
}

// WithoutRedirects returns a copy of a configuration whose clients take a redirect for an error, which is a
// *[RedirectError]. The attack: client-go adds the credential to each request that it sends, also to the one that
// follows a redirect, to any host and also over plain http. kcp redirects nothing.
func WithoutRedirects(workspace *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(workspace)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return stationary{next} })
	return cfg
}

// stationary is a transport whose answers lead nowhere else.
type stationary struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s stationary) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	to := res.Header.Get("Location")
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		_ = res.Body.Close()
		return nil, &RedirectError{From: req.URL.Scheme + "://" + req.URL.Host, To: to}
	}
	return res, nil
}

// WrappedRoundTripper lets client-go close idle connections and find the dialer below.
func (s stationary) WrappedRoundTripper() http.RoundTripper { return s.next }
