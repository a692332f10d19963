// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/relay"
)

// An upgraded connection outlives its handler: were the handler to wait for its end, net/http
// would keep for each one a goroutine whose stack has grown to what all the steps need, its
// buffers and the request. So the handler returns, and two goroutines with small stacks relay.

// outlive makes the request's context one that net/http does not end when the handler returns.
// Until handOver both end together.
func (x *exchange) outlive() {
	parent := x.request.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	x.untie = context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	x.AtEnd(func() {
		x.untie()
		cancel(nil)
	})
	x.request = x.request.WithContext(ctx)
}

// handOver leaves the rest of the exchange to its relay, and lets go of what only an answer needs.
func (x *exchange) handOver() {
	x.untie()
	x.Release()
	kept := &http.Request{Method: x.request.Method, RemoteAddr: x.request.RemoteAddr}
	if forwarded := x.request.Header["X-Forwarded-For"]; len(forwarded) > 0 { // see sourceIPs
		kept.Header = http.Header{"X-Forwarded-For": forwarded}
	}
	x.request = kept.WithContext(x.request.Context())
	x.call.Request = nil
}

// relay carries an upgraded connection to its end, and ends the exchange.
func (h *handler) relay(x *exchange) {
	defer h.finish(x)
	err := x.call.Relay.Run()
	switch {
	case errors.Is(err, relay.ErrIdle):
		x.cause = refusal.CauseIdle
	case errors.Is(err, relay.ErrDefect):
		x.cause, x.err = refusal.CauseDefect, err
	}
}
