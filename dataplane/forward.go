// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/http1"
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
	// header, if set, is sent in place of what is passed on of the caller's.
	header http.Header
}

// transport sends the request to the pod and the answer to the caller. When the instance has fallen
// asleep on the way, the request waits like one that came a moment later; once.
func (h *handler) transport(x *exchange, to *target, e sandbarv1alpha1.Endpoint) *refusal {
	up, refused := h.upstream(x, to)
	if refused != nil {
		return refused
	}
	x.sent = time.Now()
	ctx, cancel := context.WithCancelCause(x.request.Context())
	ctx, span := spanToPod(ctx, x)
	stop := h.supervise(ctx, cancel, x, to.at)
	x.atEnd(func() {
		x.noteCut(ctx)
		stop()
		span.End()
		cancel(nil)
	})
	refused = h.carry(ctx, x, to, up)
	if refused == nil || !x.isUnheard(refused) || !fellAsleep(to.at) {
		return refused
	}
	x.supervisor.answered() // no pod is waited for until there is one
	at, refused := h.wake(x, to.at, e, false)
	if refused != nil {
		return refused
	}
	if to, refused = h.placer.resolve(at, x.route, e); refused != nil {
		return refused
	}
	if up, refused = h.upstream(x, to); refused != nil {
		return refused
	}
	x.sent = time.Now()
	x.supervisor.asked(x.sent)
	return h.carry(ctx, x, to, up)
}

// carry takes the request to a pod that is awake.
func (h *handler) carry(ctx context.Context, x *exchange, to *target, up upstream) *refusal {
	if isUpgrade(x.request.Header) {
		return h.upgrade(ctx, x, to, up)
	}
	return h.forward(ctx, x, to, up)
}

// isUnheard tells whether a request that met such an end may be sent again: nothing of it was sent,
// or it has no body and only asks. What a pod may have acted on is never sent twice.
func (x *exchange) isUnheard(refused *refusal) bool {
	if errors.Is(refused, errNoEndpoint) || errors.Is(refused, errNotAccepted) {
		return true
	}
	verb, _ := kubernetesVerb(x.request.Method)
	if verb != "get" || x.request.ContentLength != 0 {
		return false
	}
	return refused.cause == causeUnreachable || refused.cause == causeNotReady || errors.Is(refused, http1.ErrClosed)
}

func (h *handler) upstream(x *exchange, to *target) (upstream, *refusal) {
	if to.isSubresource() {
		return h.transports.apiServer.subresource(x, to)
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

// forward carries a plain request and its answer.
func (h *handler) forward(ctx context.Context, x *exchange, to *target, up upstream) *refusal {
	out := h.outgoing(ctx, x, to, up)
	if x.request.Body != nil && x.request.ContentLength != 0 {
		out.Body = upload{http.MaxBytesReader(x.ResponseWriter, x.request.Body, h.settings.limits().BodyBytes), x}
	}
	res, err := up.rt.RoundTrip(out)
	if err != nil {
		return h.failed(ctx, x, to, err)
	}
	defer res.Body.Close()
	x.began()
	removeHopByHop(res.Header)
	if err := h.answer(x, to, up, res); err != nil {
		return h.failed(ctx, x, to, err)
	}
	if err := h.pass(x, to, res); err != nil {
		if x.stalled.Load() {
			x.cause = causeStalled
		}
		// The answer has begun; only a broken connection tells the caller that it is not
		// whole. net/http recognises this panic, and the deferred functions have run.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// outgoing makes the request to the pod, still without a body.
func (h *handler) outgoing(ctx context.Context, x *exchange, to *target, up upstream) *http.Request {
	out := x.request.WithContext(ctx)
	out.RequestURI, out.Body, out.Trailer, out.TransferEncoding = "", nil, nil, nil
	out.URL, out.Host, out.Close = up.url, up.host, false
	if up.header != nil {
		out.Header = up.header
		return out
	}
	// Values are shared with the caller's request: nothing below changes one in place.
	out.Header = maps.Clone(x.request.Header)
	removeHopByHop(out.Header)
	filterRequest(out.Header, x.request, x.route, to, h.hub)
	return out
}

// pass sends an answer to the caller, as it comes if its length is not known.
func (h *handler) pass(x *exchange, to *target, res *http.Response) error {
	header := x.Header()
	maps.Copy(header, res.Header)
	for name := range res.Trailer {
		header.Add("Trailer", name)
	}
	x.WriteHeader(res.StatusCode)
	asItComes := to.stream || res.ContentLength < 0 || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if asItComes {
		if err := x.FlushError(); err != nil {
			return err
		}
	}
	if err := h.copyBody(x, res.Body, asItComes); err != nil {
		return err
	}
	filterResponse(res.Trailer, x.route, to, x.request.Host)
	maps.Copy(header, res.Trailer)
	return nil
}

// copyBody holds one buffer, however slowly the caller takes what the pod sends.
func (h *handler) copyBody(to *exchange, from io.Reader, flush bool) error {
	buf := h.buffers.get()
	defer h.buffers.put(buf)
	more := func() bool { return false }
	if body, ok := from.(interface{ Ready() bool }); ok && !flush {
		more = body.Ready
	}
	for {
		n, err := readReady(from, buf[:], more)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
			if flush {
				if err := to.FlushError(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
	}
}

// readReady waits for one read, and then reads on for as long as there is more without waiting: a
// pod's answer mostly lies there in two parts, and costs the caller one.
func readReady(from io.Reader, buf []byte, more func() bool) (n int, err error) {
	for {
		read, err := from.Read(buf[n:])
		n += read
		if err != nil || n == len(buf) || !more() {
			return n, err //nolint:wrapcheck // a reader's error
		}
	}
}

// answer judges and filters a pod's answer before anything of it reaches the caller.
func (h *handler) answer(x *exchange, to *target, up upstream, res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUnexpectedSwitch
	}
	if to.isSubresource() {
		if refused := judgeSubresource(to, res); refused != nil {
			return refused
		}
	} else if up.strip != "" {
		if refused := judgeAPIServer(res); refused != nil {
			return refused
		}
		stripLocation(res.Header, up.strip)
	}
	filterResponse(res.Header, x.route, to, x.request.Host)
	switch {
	case x.route.previewHost != "":
		markPreview(res.Header)
	case !to.proxy:
		contain(res.Header)
	}
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
		return stalled(x.stall)
	case x.request.Context().Err() != nil:
		return clientGone(context.Cause(x.request.Context()))
	case x.broken.Load():
		return malformed("the request's body is not framed as HTTP wants it")
	case errors.Is(err, errNoEndpoint):
		return notReady(notReadyMessage(to.at), err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return badGateway(causeUnreachable, "the instance's pod does not accept connections: is its process listening?", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return gatewayTimeout(h.settings.limits().ResponseTimeout, err)
	}
	if !errors.Is(err, http1.ErrClosed) {
		err = errBadAnswer // instead of a text that may quote the pod
	}
	return badGateway(causeBadAnswer, "the instance gave no valid HTTP answer: look at its log", err)
}

// noteCut records why an answer that had begun was cut.
func (x *exchange) noteCut(ctx context.Context) {
	if x.refused {
		return // there was none
	}
	if refused := causeOf(ctx); refused != nil {
		x.cause, x.err = refused.cause, refused.err
	} else if x.request.Context().Err() != nil && x.cause == "" {
		x.cause = causeClientGone
	}
}

// bufferPool lends buffers for copying bodies.
type bufferPool struct{ pool sync.Pool }

const copyBufferBytes = 32 << 10

func (p *bufferPool) get() *[copyBufferBytes]byte {
	if b, ok := p.pool.Get().(*[copyBufferBytes]byte); ok {
		return b
	}
	return new([copyBufferBytes]byte)
}

func (p *bufferPool) put(b *[copyBufferBytes]byte) { p.pool.Put(b) }
