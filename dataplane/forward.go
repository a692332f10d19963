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

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
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
	// credential is what the header shows the pod, for a request to a path of the pod; nil if the
	// connection sees to that.
	credential *credential
	path       string
	// pod is the one on the way through the API server.
	pod endpointKey
	// anew is set to have the request go over a new connection.
	anew bool
}

// transport sends the request to the pod and the answer to the caller. When the instance has fallen
// asleep on the way, the request waits like one that came a moment later; once.
func (h *handler) transport(x *exchange, to *locate.Target, e sandbarv1alpha1.Endpoint) *refusal.Error {
	up, refused := h.upstream(x, to)
	if refused != nil {
		return refused
	}
	x.sent = time.Now()
	ctx, cancel := context.WithCancelCause(x.request.Context())
	ctx, span := spanToPod(ctx, x)
	stop := h.supervise(ctx, cancel, x, to.At)
	x.atEnd(func() {
		x.noteCut(ctx)
		stop()
		span.End()
		cancel(nil)
	})
	refused = h.present(ctx, x, to, up)
	if refused == nil || !x.isUnheard(refused) || !fellAsleep(to.At) {
		return refused
	}
	x.supervisor.answered() // no pod is waited for until there is one
	at, refused := h.wake(x, to.At, e)
	if refused != nil {
		return refused
	}
	if to, refused = h.resolve(x.request.Context(), at, x.route, e); refused != nil {
		return refused
	}
	if up, refused = h.upstream(x, to); refused != nil {
		return refused
	}
	x.sent = time.Now()
	x.supervisor.asked(x.sent)
	return h.present(ctx, x, to, up)
}

// carry takes the request to a pod that is awake.
func (h *handler) carry(ctx context.Context, x *exchange, to *locate.Target, up upstream) *refusal.Error {
	if cut := x.supervisor.overdue(time.Now()); cut != nil { // the last moment before the pod hears of it
		return cut
	}
	if access.IsUpgrade(x.request.Header) {
		return h.upgrade(ctx, x, to, up)
	}
	return h.forward(ctx, x, to, up)
}

// isUnheard tells whether a request that met such an end may be sent again: nothing of it was sent,
// or it has no body and only asks. What a pod may have acted on is never sent twice.
func (x *exchange) isUnheard(refused *refusal.Error) bool {
	if errors.Is(refused, errNoEndpoint) || errors.Is(refused, errNotAccepted) {
		return true
	}
	verb, _ := access.KubernetesVerb(x.request.Method)
	if verb != "get" || x.request.ContentLength != 0 {
		return false
	}
	return refused.Cause == refusal.CauseUnreachable || refused.Cause == refusal.CauseNotReady || errors.Is(refused, http1.ErrClosed)
}

func (h *handler) upstream(x *exchange, to *locate.Target) (upstream, *refusal.Error) {
	if to.IsSubresource() {
		return h.transports.apiServer.subresource(x, to)
	}
	if h.transports.pick(x.request.Context(), to) == TransportAPIServer {
		return h.throughAPIServer(x, to)
	}
	d := h.transports.direct
	return upstream{rt: d, url: to.URL(d.address(to.Destination()), x.route.Tail, x.request.URL.RawQuery), host: headers.PodHost}, nil
}

// forward carries a plain request and its answer.
func (h *handler) forward(ctx context.Context, x *exchange, to *locate.Target, up upstream) *refusal.Error {
	out := h.outgoing(ctx, x, to, up)
	if x.request.Body != nil && x.request.ContentLength != 0 {
		out.Body = x.Upload(x.request.Body, h.settings.limits().BodyBytes)
	}
	res, err := up.rt.RoundTrip(out)
	if err != nil {
		return h.failed(ctx, x, to, err)
	}
	defer res.Body.Close()
	x.began()
	headers.RemoveHopByHop(res.Header)
	if err := h.answer(x, to, up, res); err != nil {
		return h.failed(ctx, x, to, err)
	}
	if err := h.pass(x, to, res); err != nil {
		if x.Stalled.Load() {
			x.cause = refusal.CauseStalled
		}
		// The answer has begun; only a broken connection tells the caller that it is not
		// whole. net/http recognises this panic, and the deferred functions have run.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// outgoing makes the request to the pod, still without a body.
func (h *handler) outgoing(ctx context.Context, x *exchange, to *locate.Target, up upstream) *http.Request {
	out := x.request.WithContext(ctx)
	out.RequestURI, out.Body, out.Trailer, out.TransferEncoding = "", nil, nil, nil
	out.URL, out.Host, out.Close = up.url, up.host, up.anew
	if up.header != nil {
		out.Header = up.header
		return out
	}
	// Values are shared with the caller's request: nothing below changes one in place.
	out.Header = maps.Clone(x.request.Header)
	headers.RemoveHopByHop(out.Header)
	h.filter.Request(out.Header, x.request, x.route, to, x.question.Caller)
	if name, value := up.credential.header(out.Method, up.path, up.url.RawQuery); name != "" {
		h.metrics.Shown(name == headers.ControlToken)
		out.Header[name] = []string{value}
		if query := up.url.RawQuery; query != "" && name == controlproof.Header && access.IsUpgrade(x.request.Header) {
			// The API server's proxy drops the query of an upgrade, and with it the command of exec.
			out.Header[controlproof.QueryHeader] = []string{query}
		}
	}
	return out
}

// pass sends an answer to the caller, as it comes if its length is not known.
func (h *handler) pass(x *exchange, to *locate.Target, res *http.Response) error {
	header := x.Header()
	maps.Copy(header, res.Header)
	headers.Answer(res.Trailer, x.route, to, x.request.Host) // what will not pass is not announced
	for name := range res.Trailer {
		header.Add("Trailer", name)
	}
	x.WriteHeader(res.StatusCode)
	asItComes := to.Stream || res.ContentLength < 0 || isEventStream(res.Header)
	if asItComes {
		if err := x.FlushError(); err != nil {
			return err
		}
	}
	if err := h.copyBody(x, res.Body, asItComes); err != nil {
		return err
	}
	headers.Answer(res.Trailer, x.route, to, x.request.Host)
	maps.Copy(header, res.Trailer)
	return nil
}

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
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
func (h *handler) answer(x *exchange, to *locate.Target, up upstream, res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUnexpectedSwitch
	}
	if to.IsSubresource() {
		if refused := judgeSubresource(to, res); refused != nil {
			return refused
		}
	} else if up.strip != "" {
		refused := judgeAPIServer(res, to.Proxy)
		h.transports.direct.note(up.pod, refused != nil)
		if refused != nil {
			return refused
		}
		stripLocation(res.Header, up.strip)
	}
	if refused := judgeControl(to, res); refused != nil {
		return refused
	}
	headers.Answer(res.Header, x.route, to, x.request.Host)
	switch {
	case x.route.PreviewHost != "":
		headers.MarkPreview(res.Header)
	case to.Proxy:
		headers.KeepPrivate(res.Header)
	default:
		headers.Contain(res.Header)
	}
	if to.Stream || isEventStream(res.Header) {
		res.Header.Set(headers.Buffering, "no") // or nginx keeps the beginning of a stream to itself
	}
	return nil
}

// failed says what to tell the caller when no answer came from the pod.
func (h *handler) failed(ctx context.Context, x *exchange, to *locate.Target, err error) *refusal.Error {
	var (
		refused  *refusal.Error
		tooLarge *http.MaxBytesError
		dial     *net.OpError
	)
	switch {
	case errors.As(err, &refused):
		return refused
	case causeOf(ctx) != nil:
		return causeOf(ctx)
	case errors.As(err, &tooLarge):
		return refusal.BodyTooLarge(tooLarge.Limit)
	case x.Stalled.Load():
		return refusal.Stalled(x.Stall)
	case x.request.Context().Err() != nil:
		return access.ClientGone(context.Cause(x.request.Context()))
	case x.Broken.Load():
		return refusal.Malformed("the request's body is not framed as HTTP wants it")
	case errors.Is(err, errNoEndpoint):
		return refusal.NotReady(locate.NoPodMessage(to.At), err)
	case errors.Is(err, errForeignEndpoint), errors.Is(err, placement.ErrForeign):
		return locate.RefusedReference(err)
	case errors.Is(err, errNoToken), errors.Is(err, errUnproven):
		return controlRefused(err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return refusal.NotListening(to.Proxy, refusal.DialledPort(dial), err)
	case errors.Is(err, errNotAccepted) && timedOut(err):
		return refusal.GatewayTimeout(challengeTimeout, err)
	case errors.Is(err, errNotAccepted):
		return refusal.BadGateway(refusal.CauseUnreachable, "the instance's pod ends connections: it is starting or ending, or its process fails", err)
	case timedOut(err):
		return refusal.GatewayTimeout(h.settings.limits().ResponseTimeout, err)
	}
	if !errors.Is(err, http1.ErrClosed) {
		err = errBadAnswer // instead of a text that may quote the pod
	}
	return refusal.BadGateway(refusal.CauseBadAnswer, "the instance gave no valid HTTP answer: look at its log", err)
}

// timedOut reports whether an error means that the other side has said nothing in time.
func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// noteCut records why an answer that had begun was cut.
func (x *exchange) noteCut(ctx context.Context) {
	if x.refused {
		return // there was none
	}
	if refused := causeOf(ctx); refused != nil {
		x.cause, x.err = refused.Cause, refused.Err
	} else if x.request.Context().Err() != nil && x.cause == "" {
		x.cause = refusal.CauseClientGone
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

// spanToPod starts the span of the way to the pod and names it to the pod, in place of whatever
// the caller's header said. The pod learns two random numbers and a bit.
func spanToPod(ctx context.Context, x *exchange) (context.Context, trace.Span) {
	ctx, span := spans.Child(ctx, "pod", trace.SpanKindClient)
	if x.span != nil {
		delete(x.request.Header, record.HeaderTraceparent)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(x.request.Header))
	}
	return ctx, span
}
