// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

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

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
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

// Way is where one request goes, and by what.
type Way struct {
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
	// exec is set on the way to a pod's exec whose command has a mark.
	exec *execWay
	// anew is set to have the request go over a new connection.
	anew bool
}

// carry takes the request to a pod that is awake.
func (w *Ways) carry(ctx context.Context, c *Call, to *locate.Target, up Way) *refusal.Error {
	if cut := c.Minder.Overdue(time.Now()); cut != nil { // the last moment before the pod hears of it
		return cut
	}
	if access.IsUpgrade(c.Request.Header) {
		return w.upgrade(ctx, c, to, up)
	}
	return w.forward(ctx, c, to, up)
}

// IsUnheard reports whether a request that met such an end may be sent again: nothing of it was sent,
// or it has no body and only asks. What a pod may have acted on is never sent twice.
func (c *Call) IsUnheard(refused *refusal.Error) bool {
	if errors.Is(refused, errNoEndpoint) || errors.Is(refused, errNotAccepted) {
		return true
	}
	verb, _ := access.KubernetesVerb(c.Request.Method)
	if verb != "get" || c.Request.ContentLength != 0 {
		return false
	}
	return refused.Cause == refusal.CauseUnreachable || refused.Cause == refusal.CauseNotReady || errors.Is(refused, http1.ErrClosed)
}

// Way finds the way to a target. On that through the API server the pod is asked for its challenge.
func (w *Ways) Way(c *Call, to *locate.Target) (Way, *refusal.Error) {
	if to.IsSubresource() {
		return w.apiServer.subresource(c, to)
	}
	if w.pick(c.Request.Context(), to) == APIServer {
		return w.throughAPIServer(c, to)
	}
	d := w.direct
	return Way{rt: d, url: to.URL(d.address(to.Destination()), c.Route.Tail, c.Request.URL), host: headers.PodHost}, nil
}

// forward carries a plain request and its answer.
func (w *Ways) forward(ctx context.Context, c *Call, to *locate.Target, up Way) *refusal.Error {
	out := w.outgoing(ctx, c, to, up)
	if c.Request.Body != nil && c.Request.ContentLength != 0 {
		out.Body = c.Upload(c.Request.Body, w.limits().BodyBytes)
	}
	res, err := up.rt.RoundTrip(out)
	if err != nil {
		return w.failed(ctx, c, to, err)
	}
	defer res.Body.Close()
	c.began()
	headers.RemoveHopByHop(res.Header)
	if err := w.answer(c, to, up, res); err != nil {
		return w.failed(ctx, c, to, err)
	}
	if err := w.pass(c, to, res); err != nil {
		switch {
		case c.Stalled.Load():
			c.Cause = refusal.CauseStalled
		case errors.Is(err, http1.ErrTrailerTooLarge):
			c.Cause = refusal.CauseBadAnswer
		}
		// The answer has begun; only a broken connection tells the caller that it is not
		// whole. net/http recognises this panic, and the deferred functions have run.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// outgoing makes the request to the pod, still without a body.
func (w *Ways) outgoing(ctx context.Context, c *Call, to *locate.Target, up Way) *http.Request {
	out := c.Request.WithContext(ctx)
	out.RequestURI, out.Body, out.Trailer, out.TransferEncoding = "", nil, nil, nil
	out.URL, out.Host, out.Close = up.url, up.host, up.anew
	if up.header != nil {
		out.Header = up.header
		return out
	}
	// Values are shared with the caller's request: nothing below changes one in place.
	out.Header = maps.Clone(c.Request.Header)
	headers.RemoveHopByHop(out.Header)
	w.filter.Request(out.Header, c.Request, c.Route, to, c.Caller)
	if name, value := up.credential.header(out.Method, up.path, up.url.RawQuery); name != "" {
		w.metrics.Shown(name == headers.ControlToken)
		out.Header[name] = []string{value}
		if query := up.url.RawQuery; query != "" && name == controlproof.Header && access.IsUpgrade(c.Request.Header) {
			// The API server's proxy drops the query of an upgrade, and with it the command of exec.
			out.Header[controlproof.QueryHeader] = []string{query}
		}
	}
	return out
}

// pass sends an answer to the caller, as it comes if its length is not known.
func (w *Ways) pass(c *Call, to *locate.Target, res *http.Response) error {
	header := c.Header()
	maps.Copy(header, res.Header)
	announced := announce(c, to, res.Trailer)
	c.WriteHeader(res.StatusCode)
	asItComes := to.Stream || res.ContentLength < 0 || isEventStream(res.Header)
	if asItComes {
		if err := c.FlushError(); err != nil {
			return err
		}
	}
	if err := w.copyBody(c, res.Body, res.ContentLength, asItComes); err != nil {
		return err
	}
	addTrailer(c, to, res.Trailer, announced)
	return nil
}

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// copyBody holds one buffer, however slowly the caller takes what the pod sends. length is that of the
// body, or less than zero.
func (w *Ways) copyBody(to *Call, from io.Reader, length int64, flush bool) error {
	buf := w.buffers.get()
	defer w.buffers.put(buf)
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
			// net/http keeps up to 4 KiB: what the pod has made must not wait for what it makes next.
			length -= int64(n)
			if flush || length > 0 && n < len(buf) && err == nil {
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
func (w *Ways) answer(c *Call, to *locate.Target, up Way, res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUnexpectedSwitch
	}
	if to.IsSubresource() {
		if refused := judgeSubresource(to, res); refused != nil {
			return refused
		}
	} else if up.strip != "" {
		refused := judgeAPIServer(res, to.Proxy)
		w.direct.note(up.pod, refused != nil)
		if refused != nil {
			return refused
		}
		stripLocation(res.Header, up.strip)
	}
	if refused := judgeControl(to, res); refused != nil {
		return refused
	}
	headers.Answer(res.Header, c.Route, to, c.Request.Host)
	switch {
	case c.Route.PreviewHost != "":
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
func (w *Ways) failed(ctx context.Context, c *Call, to *locate.Target, err error) *refusal.Error {
	var (
		refused  *refusal.Error
		tooLarge *http.MaxBytesError
		dial     *net.OpError
	)
	switch {
	case errors.As(err, &refused):
		return refused
	case refusal.CauseOf(ctx) != nil:
		return refusal.CauseOf(ctx)
	case errors.As(err, &tooLarge):
		return refusal.BodyTooLarge(tooLarge.Limit)
	case c.Stalled.Load():
		return refusal.Stalled(c.Stall)
	case c.Request.Context().Err() != nil:
		return access.ClientGone(context.Cause(c.Request.Context()))
	case c.Broken.Load():
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
		return refusal.GatewayTimeout(w.limits().ResponseTimeout, err)
	}
	return refusal.BadGateway(refusal.CauseBadAnswer, badAnswer(to.Proxy, err), withoutQuote(err))
}

// badAnswer says what is wrong with an answer, and where app is set, what the app has to do.
func badAnswer(app bool, err error) string {
	const plain = "let it serve plain HTTP at this port, because TLS ends at the data plane"
	switch {
	case errors.Is(err, http1.ErrHeaderTooLarge):
		return fmt.Sprintf("the header of the instance's answer has more than %d bytes or %d lines: let its process send fewer or shorter headers and cookies", maxPodHeaderBytes, http1.MaxHeaderLines)
	case errors.Is(err, http1.ErrTLS):
		return "the instance's process speaks HTTPS: " + plain
	case app:
		return "the instance gave no valid HTTP answer: look at its log. If its app speaks HTTPS, " + plain
	default:
		return "the instance gave no valid HTTP answer: look at its log"
	}
}

// withoutQuote is an error whose text does not quote what a pod sent.
func withoutQuote(err error) error {
	for _, known := range []error{http1.ErrClosed, http1.ErrTLS, http1.ErrHeaderTooLarge} {
		if errors.Is(err, known) {
			return err
		}
	}
	return errBadAnswer
}

// timedOut reports whether an error means that the other side has said nothing in time.
func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
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
