// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"
)

var (
	// errUnexpectedSwitch means that a pod answered 101 to a request that asked for nothing
	// of the kind. To let it pass would give a hostile pod the caller's raw connection.
	errUnexpectedSwitch = errors.New("pod switched protocols unasked")
	// errBadAnswer stands for errors whose text holds what a pod sent.
	errBadAnswer = errors.New("pod gave no valid answer")
)

// upstream is where one request goes, and by what.
type upstream struct {
	rt  http.RoundTripper
	url *url.URL
	// host is the Host header; empty for that of the URL.
	host string
	// strip is a path prefix that the way there adds to redirects.
	strip string
}

// transport sends the request to the pod and the answer to the caller.
func (h *handler) transport(x *exchange, at *place, to *target) *refusal {
	up, refused := h.upstream(x, to)
	if refused != nil {
		return refused
	}
	x.sent = time.Now()
	ctx, cancel := context.WithCancelCause(x.request.Context())
	defer cancel(nil)
	defer h.supervise(ctx, cancel, x, at)()
	defer x.noteCut(ctx)
	if isUpgrade(x.request.Header) {
		return h.upgrade(ctx, cancel, x, to, up)
	}
	return h.forward(ctx, cancel, x, to, up)
}

func (h *handler) upstream(x *exchange, to *target) (upstream, *refusal) {
	if to.pod != "" {
		query, refused := podLogQuery(x.route, x.request.URL.Query(), to)
		if refused != nil {
			return upstream{}, refused
		}
		return upstream{rt: h.transports.apiServer, url: h.transports.apiServer.podLogURL(to, query)}, nil
	}
	by := h.transports.pick(x.request.Context(), to)
	address := by.address(to)
	up := upstream{rt: by, url: upstreamURL(address, to, x.route.tail, x.request.URL.RawQuery)}
	if by == transport(h.transports.direct) {
		up.host = podHost
	} else {
		up.strip = address.Path
	}
	return up, nil
}

// forward carries a plain request. httputil.ReverseProxy does the copying; it is made per
// request because what it does depends on the request, and it is no more than a struct.
func (h *handler) forward(ctx context.Context, cancel context.CancelCauseFunc, x *exchange, to *target, up upstream) (refused *refusal) {
	r := x.request.WithContext(ctx)
	if r.Body != nil {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, h.settings.limits().BodyBytes)
	}
	answered := func() {}
	if !x.isStream {
		limit := h.settings.limits().ResponseTimeout
		timer := time.AfterFunc(limit, func() { cancel(gatewayTimeout(nil)) })
		defer timer.Stop()
		answered = func() { timer.Stop() }
		x.progress = func() { timer.Reset(limit) }
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = up.url, up.host
			filterRequest(p.Out.Header, p.In, x.route, to)
		},
		Transport: up.rt,
		ModifyResponse: func(res *http.Response) error {
			answered()
			x.began()
			return h.answer(x, to, up, res)
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { refused = h.failed(ctx, x, to, err) },
		BufferPool:   &h.buffers,
		ErrorLog:     silent,
	}
	if to.stream {
		proxy.FlushInterval = -1
	}
	proxy.ServeHTTP(x, r)
	return refused
}

// silent swallows what ReverseProxy would print of errors: they are in the access line, and
// their text may hold what a pod sent.
var silent = log.New(io.Discard, "", 0)

// answer judges and filters a pod's answer before anything of it reaches the caller.
func (h *handler) answer(x *exchange, to *target, up upstream, res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUnexpectedSwitch
	}
	if to.pod != "" {
		if refused := judgePodLog(res); refused != nil {
			return refused
		}
	} else if up.strip != "" {
		if refused := judgeAPIServer(res); refused != nil {
			return refused
		}
		stripLocation(res.Header, up.strip)
	}
	filterResponse(res.Header, x.route, to, x.request.Host)
	return nil
}

// failed says what to tell the caller when no answer came from the pod.
func (h *handler) failed(ctx context.Context, x *exchange, to *target, err error) *refusal {
	var (
		refused  *refusal
		tooLarge *http.MaxBytesError
		dial     *net.OpError
	)
	switch {
	case errors.As(err, &refused):
		return refused
	case causeOf(ctx) != nil:
		return causeOf(ctx)
	case errors.As(err, &tooLarge):
		return bodyTooLarge(tooLarge.Limit)
	case x.stalled.Load():
		return stalled()
	case x.request.Context().Err() != nil:
		return clientGone(context.Cause(x.request.Context()))
	case errors.Is(err, errNoEndpoint):
		return notReady(notReadyMessage(to.at), err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return badGateway(causeUnreachable, "the instance's pod does not accept connections: is its process listening?", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return gatewayTimeout(err)
	}
	// The error's text may quote the pod, so it is replaced.
	return badGateway(causeBadAnswer, "the instance gave no valid HTTP answer: look at its log", errBadAnswer)
}

// noteCut records why an answer that had begun was cut.
func (x *exchange) noteCut(ctx context.Context) {
	if refused := causeOf(ctx); refused != nil {
		x.cause, x.err = refused.cause, refused.err
	} else if x.request.Context().Err() != nil && x.cause == "" {
		x.cause = causeClientGone
	}
}

// bufferPool lends buffers for copying bodies.
type bufferPool struct{ pool sync.Pool }

const copyBufferBytes = 32 << 10

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[copyBufferBytes]byte); ok {
		return b[:]
	}
	return make([]byte, copyBufferBytes)
}

// Put implements httputil.BufferPool. An array's pointer fits an interface without allocating.
func (p *bufferPool) Put(b []byte) {
	if len(b) == copyBufferBytes {
		p.pool.Put((*[copyBufferBytes]byte)(b))
	}
}
