// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package deadline bounds how long a client waits for an API server that hangs: one that accepts
// connections and answers nothing. client-go has no such bound of its own, so that a reconcile which
// asks such a server never returns, and with a few of them no worker is left.
//
// The bounds are on silence and not on length. A list of ten thousand objects may take as long as it
// needs, as long as something of it keeps coming. Watches are silent by nature: HTTP/2's pings, which
// client-go sends on every connection that has been silent for 30 seconds, tell whether their server
// is there, and a silence of several minutes has them begin anew, as servers themselves do.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"k8s.io/client-go/rest"
)

// ErrSilent is the error of a request whose server was silent for too long.
var ErrSilent = errors.New("the server is silent")

// Limits are how long a server may be silent.
type Limits struct {
	// Read is until the header of an answer to a request that changes nothing. It is the longest,
	// because a server makes a list before it sends any of it.
	Read time.Duration
	// Write is until the header of an answer to any other request.
	Write time.Duration
	// Body is between two pieces of an answer.
	Body time.Duration
	// Watch is between two events or bookmarks of a watch. API servers send a bookmark about every
	// minute.
	Watch time.Duration
}

// Default are the limits that the provider has.
func Default() Limits {
	return Limits{Read: 45 * time.Second, Write: 20 * time.Second, Body: 20 * time.Second, Watch: 5 * time.Minute}
}

// Config returns a copy of a configuration whose clients keep to the limits.
func Config(config *rest.Config, limits Limits) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, limits: limits} })
	return config
}

type transport struct {
	next   http.RoundTripper
	limits Limits
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	header, body := t.limits.Write, t.limits.Body
	switch {
	case watches(req):
		header, body = t.limits.Watch, t.limits.Watch
	case req.Method == http.MethodGet || req.Method == http.MethodHead:
		header = t.limits.Read
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	silence := func(d time.Duration) error {
		return fmt.Errorf("%s %s: %w: nothing came within %s", req.Method, req.URL.Host, ErrSilent, d)
	}
	timer := time.AfterFunc(header, func() { cancel(silence(header)) })
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil // its body is a connection, which lives as long as its users want
	}
	resp.Body = &piecewise{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, limit: body, silence: silence(body)}
	return resp, nil
}

// watches reports whether the request is a watch. "watch=1" and a bare "watch" count as true, as the
// API server has it.
func watches(req *http.Request) bool {
	values, ok := req.URL.Query()["watch"]
	return ok && !slices.Contains([]string{"false", "0", "f", "False", "FALSE", "F"}, values[0])
}

// piecewise is the body of an answer, each piece of which may take as long as the limit. Only the
// time in which somebody waits for a piece counts, not what is done between pieces.
type piecewise struct {
	io.ReadCloser

	ctx     context.Context //nolint:containedctx // it is that of the request, which the body belongs to
	cancel  context.CancelCauseFunc
	limit   time.Duration
	silence error
}

// Read implements io.Reader.
func (b *piecewise) Read(p []byte) (int, error) {
	timer := time.AfterFunc(b.limit, func() { b.cancel(b.silence) })
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(b.ctx); errors.Is(cause, ErrSilent) {
			err = cause
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *piecewise) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
