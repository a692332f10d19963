// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// forward carries a request and its answer.
func (x *exchange) forward() error {
	res, err := x.roundTrip(x.outgoing())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUnexpectedSwitch
	}
	x.answer(res)
	return nil
}

// roundTrip sends the request by the protocol that the client speaks.
func (x *exchange) roundTrip(out *http.Request) (*http.Response, error) {
	if x.r.ProtoMajor == 2 {
		return x.roundTripHTTP2(out)
	}
	res, err := x.port.proxy.http1(x.copied).RoundTrip(out)
	x.started = true
	return res, err //nolint:wrapcheck // fail says what it is about
}

func (x *exchange) roundTripHTTP2(out *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		x.hint(code, http.Header(header))
		return nil
	}}
	if out.Body != nil {
		trace.GotConn = func(info httptrace.GotConnInfo) { x.uploadOn(info.Conn) }
	}
	out = out.WithContext(httptrace.WithClientTrace(out.Context(), trace))
	transport := x.client.upstreams.to(x.port.proxy, x.address)
	defer x.client.upstreams.done(transport)
	res, err := transport.RoundTrip(out)
	x.hints.Lock()
	defer x.hints.Unlock()
	x.started = true
	return res, err //nolint:wrapcheck // fail says what it is about
}

// hint passes on an informational answer of HTTP/1.1.
func hint(req *http.Request, code int, header http.Header) {
	if x, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
		x.hint(code, header)
	}
}

// hint passes on an informational answer. That to an expectation is net/http's, when the body is read.
func (x *exchange) hint(code int, header http.Header) {
	x.hints.Lock()
	defer x.hints.Unlock()
	if x.started || code == http.StatusContinue || code == http.StatusSwitchingProtocols || !x.r.ProtoAtLeast(1, 1) {
		return
	}
	own := x.w.Header()
	removeHopByHop(header)
	maps.Copy(own, header)
	x.w.WriteHeader(code)
	clear(own)
}

// outgoing makes the request that goes on. It has the client's path and query byte for byte.
func (x *exchange) outgoing() *http.Request {
	out := x.r.WithContext(x)
	out.RequestURI, out.TransferEncoding, out.Close = "", nil, false
	out.URL = x.target()
	if x.r.ProtoMajor == 1 && x.r.ContentLength == 0 || x.r.Body == http.NoBody {
		out.Body, out.Trailer = nil, nil
	} else {
		out.Body = x.upload()
	}
	toUpstream(out.Header, x.client.address)
	return out
}

// target is what the backend is asked for.
func (x *exchange) target() *url.URL {
	uri := x.r.RequestURI
	u := &url.URL{Scheme: "http", Host: x.address, Opaque: uri}
	if strings.HasPrefix(uri, "/") && (x.r.ProtoMajor == 1 || !strings.HasPrefix(uri, "//")) {
		return u
	}
	// The absolute form, *, and over HTTP/2 what package net/http would take for a host.
	u.Opaque, u.Path, u.RawPath, u.RawQuery, u.ForceQuery = "", x.r.URL.Path, x.r.URL.RawPath, x.r.URL.RawQuery, x.r.URL.ForceQuery
	return u
}

// upload is the body of a request on its way. An answer may begin before it has ended.
func (x *exchange) upload() io.ReadCloser {
	if x.r.ProtoMajor != 1 {
		return x.r.Body
	}
	control := http.NewResponseController(x.w)
	_ = control.EnableFullDuplex()
	return &upload{ReadCloser: x.r.Body, control: control}
}

type upload struct {
	io.ReadCloser

	control *http.ResponseController
	mu      sync.Mutex
	ended   bool
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.mu.Lock()
		u.ended = true
		u.mu.Unlock()
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return n, err //nolint:wrapcheck // a reader's error
	default:
		return n, &uploadError{err}
	}
}

// Stop implements http1.Stopper. Once all of the body is there net/http watches the connection for its end, which a deadline
// would take for one.
func (u *upload) Stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		_ = u.control.SetReadDeadline(past)
	}
}

// uploadError means that the client's body could not be read.
type uploadError struct{ err error }

func (e *uploadError) Error() string { return "reading the request's body: " + e.err.Error() }

func (e *uploadError) Unwrap() error { return e.err }

// answer passes an answer on, as it comes if its length is not known.
func (x *exchange) answer(res *http.Response) {
	removeHopByHop(res.Header)
	own := x.w.Header()
	maps.Copy(own, res.Header)
	if _, ok := own["Content-Type"]; !ok {
		own["Content-Type"] = nil // keeps net/http from guessing one
	}
	announced := announce(own, res.Trailer)
	x.closing()
	x.status = res.StatusCode
	x.w.WriteHeader(res.StatusCode)
	if res.Body == http.NoBody || res.ContentLength == 0 && len(res.Trailer) == 0 {
		return // an answer of HTTP/2 that is a header alone stays one: gRPC has such
	}
	if err := x.copyBody(res); err != nil {
		x.breakOff(err)
	}
	addTrailer(own, res.Trailer, announced)
}

// breakOff ends an answer that has begun. Only a broken connection, or stream, tells the client that it is not whole:
// net/http recognises this panic, and the deferred functions run.
func (x *exchange) breakOff(err error) {
	x.cause = causeAnswer
	if x.Err() != nil || errors.Is(err, errClientWrite) {
		x.cause = causeClient
	}
	panic(http.ErrAbortHandler)
}

var errClientWrite = errors.New("the client takes no more")

// copyBody copies the body of an answer.
func (x *exchange) copyBody(res *http.Response) error {
	control := http.NewResponseController(x.w)
	stream := res.ContentLength < 0 || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if stream {
		if err := control.Flush(); err != nil {
			return fmt.Errorf("%w: %w", errClientWrite, err)
		}
	}
	var part part
	part.lend(res.ContentLength > littlePart)
	defer part.giveBack()
	for left := res.ContentLength; ; {
		n, err := res.Body.Read(part.bytes)
		if n > 0 {
			if _, err := x.w.Write(part.bytes[:n]); err != nil {
				return fmt.Errorf("%w: %w", errClientWrite, err)
			}
			x.sent += int64(n)
			left -= int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the answer: %w", err)
		case stream || n < largePart && left > 0: // net/http keeps up to 4 KiB, and what comes next may take its time
			if err := control.Flush(); err != nil {
				return fmt.Errorf("%w: %w", errClientWrite, err)
			}
		}
		part.next(n)
	}
}

// announce names the trailer in the header, as far as it is known.
func announce(h, trailer http.Header) []string {
	names := slices.Collect(maps.Keys(trailer))
	for _, name := range names {
		h.Add("Trailer", name)
	}
	return names
}

// addTrailer has net/http send the trailer behind the body.
func addTrailer(h, trailer http.Header, announced []string) {
	removeHopByHop(trailer)
	for name, values := range trailer {
		switch {
		case slices.Contains(announced, name):
			h[name] = values
		case httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name):
			h[http.TrailerPrefix+name] = values
		}
	}
}

// record counts the request, and writes its line.
func (x *exchange) record() {
	took := time.Since(x.began)
	x.port.proxy.metrics.count(x.copied, x.status, took, x.upgraded)
	if x.cause != "" {
		x.port.proxy.metrics.failed(x.copied, x.cause)
	}
	x.port.proxy.access.write(x, took)
}
