// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
)

// Causes of requests and connections without a whole answer, as labels.
const (
	causeConnect = "connect" // the backend accepts no connection
	causeTimeout = "connect_timeout"
	causeClosed  = "closed" // the backend ended the connection before an answer
	causeSilent  = "silent" // its node is gone
	causeAnswer  = "answer" // its answer is not one, or is not whole
	causeFull    = "full"
	causeSandbox = "sandbox_full" // one sandbox has its part of all places
	causeRules   = "rules"
	causeRequest = "request" // the client's request cannot be read
	causeClient  = "client"  // the client has gone
	causeTunnel  = "tunnel"
)

var (
	// errTunnel means that a client takes the proxy for one of its own.
	errTunnel = errors.New("this proxy is in front of a Service and makes no tunnels")
	// errPreface means that a connection of HTTP/1.1 goes on as one of HTTP/2.
	errPreface = errors.New("a connection of HTTP/2 has to begin as one")
	// errSilent means that a backend was given up, whose node acknowledges nothing.
	errSilent = errors.New("its node acknowledged nothing of the request any more")
	// errUnexpectedSwitch means that a backend left HTTP unasked. To let it pass would give it the client's connection.
	errUnexpectedSwitch = errors.New("it switched to a protocol that was not asked for")
)

// clientGone is what nginx notes of a client that has gone before its answer.
const clientGone = 499

// failuresEvery is how often one that fails is in the log, at most. The metrics count them all.
const failuresEvery = time.Second

// failure is what a client is told in the place of an answer.
type failure struct {
	code  int
	cause string
	// text says what is wrong with the backend.
	text string
}

// fail answers a request that gets no answer. A copy's client is told so, and never given the baseline's answer.
func (x *exchange) fail(err error) {
	if x.Err() != nil && !errors.Is(err, errUnexpectedSwitch) {
		x.status, x.cause = clientGone, causeClient
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	if x.endUpload() {
		err = errSilent
	}
	f := failureOf(err)
	x.status, x.cause = f.code, f.cause
	x.note(f, err)
	if x.upgraded {
		return // it is too late for an answer
	}
	x.closing()
	x.refuse(f)
}

// note logs a failure. What clients get wrong is theirs to know, and would keep what backends do out of the log.
func (x *exchange) note(f failure, err error) {
	if f.cause == causeRequest || f.cause == causeTunnel {
		return
	}
	x.port.proxy.failing.Do(func() {
		x.port.proxy.log.Warn("a request has no answer", "address", x.address, "cause", f.cause, "error", err)
	})
}

// refuse writes the answer. One of gRPC has its code in a header, where its clients read it.
func (x *exchange) refuse(f failure) {
	words := fmt.Sprintf("sandbar-proxy of Service %s: %s: %s", x.port.proxy.opts.Service, x.backend(), f.text)
	h := x.w.Header()
	h.Set("Cache-Control", "no-store")
	if f.code == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/grpc") && f.code >= 500 {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", "14") // UNAVAILABLE
		h.Set("Grpc-Message", url.PathEscape(words))
		x.w.WriteHeader(http.StatusOK)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(f.code)
	_, _ = io.WriteString(x.w, words+"\n")
}

// backend names where the request went, to a client: a copy by the ID that the client has sent. Addresses, which have the names of
// Services and namespaces, are for the log alone: clients may be those of an Ingress.
func (x *exchange) backend() string {
	if x.copied {
		return "the copy of sandbox " + x.sandbox
	}
	return "the baseline"
}

func failureOf(err error) failure {
	var (
		full *fullError
		dial *net.OpError
		dns  *net.DNSError
		body *uploadError
		many copyStreamsError
	)
	switch {
	case errors.As(err, &full) && full.sandbox != "":
		return failure{http.StatusServiceUnavailable, causeSandbox, err.Error()}
	case errors.Is(err, errTunnel):
		return failure{http.StatusNotImplemented, causeTunnel, errTunnel.Error()}
	case errors.Is(err, errPreface):
		return failure{http.StatusBadRequest, causeRequest, errPreface.Error()}
	case errors.As(err, &full), errors.As(err, &many):
		return failure{http.StatusServiceUnavailable, causeFull, err.Error()}
	case errors.Is(err, proxyrules.ErrTooCostly):
		return failure{http.StatusServiceUnavailable, causeRules, err.Error()}
	case errors.As(err, &body):
		return failure{http.StatusBadRequest, causeRequest, "the request's body cannot be read"}
	case errors.Is(err, http1.ErrRequest):
		return failure{http.StatusBadRequest, causeRequest, "the request cannot be sent on"}
	case errors.As(err, &dns):
		return failure{http.StatusBadGateway, causeConnect, "its name cannot be resolved"}
	case errors.As(err, &dial) && dial.Op == "dial" && isTimeout(err):
		return failure{http.StatusGatewayTimeout, causeTimeout, fmt.Sprintf("it accepted no connection within %s", DialTimeout)}
	case errors.As(err, &dial) && dial.Op == "dial":
		return failure{http.StatusBadGateway, causeConnect, "it accepts no connection" + why(err)}
	case errors.Is(err, errSilent), errors.Is(err, syscall.ETIMEDOUT): // by uploads, and by the kernel
		return failure{http.StatusBadGateway, causeSilent, errSilent.Error()}
	case errors.Is(err, http1.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return failure{http.StatusBadGateway, causeClosed, "it ended the connection before it answered"}
	case errors.Is(err, http1.ErrHeaderTooLarge):
		return failure{http.StatusBadGateway, causeAnswer, fmt.Sprintf("the header of its answer has more than %d bytes or %d lines", MaxHeaderBytes, http1.MaxHeaderLines)}
	case errors.Is(err, http1.ErrTLS):
		return failure{http.StatusBadGateway, causeAnswer, "it speaks TLS"}
	case errors.Is(err, errUnexpectedSwitch):
		return failure{http.StatusBadGateway, causeAnswer, err.Error()}
	}
	return failure{http.StatusBadGateway, causeAnswer, "it gave no valid answer"}
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || isNetTimeout(err)
}

func isNetTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func why(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ": the connection is refused"
	}
	return ""
}
