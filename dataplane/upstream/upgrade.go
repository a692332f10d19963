// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/respond"
	"github.com/sandbar-dev/sandbar/pkg/relay"
)

const protocolWebSocket = "websocket"

// maxRefusalBytes bounds what is copied of a pod's answer that refuses an upgrade.
const maxRefusalBytes = 1 << 20

var errBadSwitch = errors.New("pod switched to another protocol")

// RefusedUpgrade refuses a handshake that is not one of a WebSocket, with the reason.
func RefusedUpgrade(message string) *refusal.Error {
	return &refusal.Error{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: message, Cause: refusal.CauseUpgrade}
}

// CheckUpgrade lets WebSocket handshakes pass and nothing else: an upgrade to h2c, say, would
// give the caller a connection to the pod on which no further request is looked at.
func CheckUpgrade(r *http.Request) *refusal.Error {
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Method != http.MethodGet:
		// HTTP/1.0 has no upgrades (RFC 9110 section 7.8), and net/http hides its codings, so that
		// a body could not be seen below.
		return RefusedUpgrade("an upgrade must be a GET over HTTP/1.1")
	case len(r.Header["Upgrade"]) != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), protocolWebSocket):
		return RefusedUpgrade("the only protocol to upgrade to is websocket")
	case !headerHasToken(r.Header["Connection"], "upgrade"):
		return RefusedUpgrade("an upgrade needs the header Connection: Upgrade")
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		// A body before the switch is a way to smuggle a request.
		return RefusedUpgrade("an upgrade must not have a body")
	}
	return nil
}

func headerHasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// upgrade carries a WebSocket handshake to the pod and, if the pod switches, leaves a relay in the
// exchange that has both connections.
func (w *Ways) upgrade(ctx context.Context, c *Call, to *locate.Target, up Way) *refusal.Error {
	var pod net.Conn
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { pod = info.Conn },
	})
	res, err := up.rt.RoundTrip(w.handshake(traced, c, to, up)) //nolint:bodyclose // at the exchange's end
	if err != nil {
		if pod != nil && up.exec != nil { // the API server may have begun the command
			c.Minder.AtEnd(func() { w.clean(ctx, up.exec, up.header, false) })
		}
		return w.failed(ctx, c, to, err)
	}
	body := res.Body // alone: the answer has a header, and the request with another
	c.Minder.AtEnd(func() { _ = body.Close() })
	c.began()
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer body.Close() // before another try, which may last
		return w.relayRefusal(c, to, up, res)
	}
	if !strings.EqualFold(res.Header.Get("Upgrade"), protocolWebSocket) || pod == nil {
		return refusal.BadGateway(refusal.CauseBadAnswer, "the instance switched to another protocol than was asked for", errBadSwitch)
	}
	early, err := drain(res.Body, pod)
	if err != nil {
		return refusal.BadGateway(refusal.CauseBadAnswer, "the instance ended the connection", err)
	}
	if up.exec != nil {
		pod, early = w.watchExec(ctx, c, up, pod, early), nil
	}
	headers.RemoveHopByHop(res.Header)
	headers.Answer(res.Header, c.Route, to, c.Request.Host)
	if to.IsSubresource() {
		if refused := judgeSwitch(up.header, res.Header); refused != nil {
			return refused
		}
	}
	return w.switchProtocols(ctx, c, res.Header, relay.End{Conn: pod, Early: early, Count: &c.BytesOut})
}

// handshake makes the request to the pod.
func (w *Ways) handshake(ctx context.Context, c *Call, to *locate.Target, up Way) *http.Request {
	req := w.outgoing(ctx, c, to, up)
	// The connection is for this handshake alone. Were it kept after an answer other than 101,
	// the next request on it could be another tenant's (Kubernetes, CVE-2018-1002105).
	req.Close = true
	headers.Handshake(req.Header, to.Proxy)
	req.Header.Set("Connection", "Upgrade")
	if up.header != nil {
		// API servers look for it in the first line of the header alone, and net/http would put
		// a line with "close" there.
		req.Header.Set("Connection", "Upgrade, close")
	}
	req.Header.Set("Upgrade", protocolWebSocket)
	return req
}

// relayRefusal passes on the answer of a pod that does not switch, and closes both connections.
func (w *Ways) relayRefusal(c *Call, to *locate.Target, up Way, res *http.Response) *refusal.Error {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		// A WebSocket client that follows it would take its token there (CVE-2020-8559).
		return refusal.BadGateway(refusal.CauseBadAnswer, "the instance answered the upgrade with a redirect", errBadSwitch)
	}
	headers.RemoveHopByHop(res.Header)
	if err := w.answer(c, to, up, res); err != nil {
		return w.failed(c.Request.Context(), c, to, err)
	}
	header := c.Header()
	maps.Copy(header, res.Header)
	header.Set("Connection", "close")
	c.WriteHeader(res.StatusCode)
	_, _ = io.CopyN(c, res.Body, maxRefusalBytes)
	return nil
}

// drain takes from a switched connection what net/http read of it beyond the 101, so that the
// rest can be read from the connection itself. With a deadline in the past, the body gives what
// is in its buffer and then, at the connection, fails at once without reading.
func drain(body io.Reader, conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return nil, fmt.Errorf("taking over the pod's connection: %w", err)
	}
	var early bytes.Buffer // unlike io.ReadAll's, it takes up nothing when there is nothing
	_, err := io.Copy(&early, io.LimitReader(body, maxPodHeaderBytes))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("taking over the pod's connection: %w", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("taking over the pod's connection: %w", err)
	}
	return early.Bytes(), nil
}

// switchProtocols takes the caller's connection over, sends the 101 and hands both connections to
// a relay. Once it has the connection there is nobody left to tell of an error; it is noted for
// the access line.
func (w *Ways) switchProtocols(ctx context.Context, c *Call, header http.Header, pod relay.End) *refusal.Error {
	client, buffered, err := c.Hijack()
	if err != nil {
		return RefusedUpgrade("this connection cannot be upgraded: use HTTP/1.1")
	}
	c.Minder.AtEnd(func() { _ = client.Close() })
	c.Status.Store(http.StatusSwitchingProtocols)
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", protocolWebSocket)
	if c.AuditID != "" {
		header.Set(respond.HeaderAuditID, c.AuditID)
	}
	_ = client.SetWriteDeadline(time.Now().Add(c.Stall))
	_, err = io.WriteString(buffered, "HTTP/1.1 101 Switching Protocols\r\n")
	err = errors.Join(err, header.Write(buffered))
	_, endErr := io.WriteString(buffered, "\r\n")
	if err = errors.Join(err, endErr, buffered.Flush()); err != nil {
		c.Cause = refusal.CauseClientGone
		return nil //nolint:nilerr // nobody is left to tell
	}
	_ = client.SetDeadline(time.Time{})
	// What the client sent right behind its request is in the buffer and nowhere else.
	sent, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		c.Cause = refusal.CauseClientGone
		return nil //nolint:nilerr // nobody is left to tell
	}
	// A copy of that is little; the buffer itself would stay as long as the stream.
	from := relay.End{Conn: client, Early: bytes.Clone(sent), Count: &c.BytesIn}
	c.Relay = &relay.Relay{Context: ctx, Idle: w.limits().StreamIdle, Client: from, Pod: pod}
	return nil
}
