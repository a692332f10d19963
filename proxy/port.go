// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/relay"
)

// port is a port of the Service.
type port struct {
	proxy    *Proxy
	of       intercept.Port
	listener net.Listener
	servers  *servers
}

// acceptPause is the time before the next attempt when no connection could be accepted, as without descriptors.
const acceptPause = 50 * time.Millisecond

// accept takes connections until the listener is closed.
func (p *port) accept(ctx context.Context) {
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			p.take(ctx, conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			p.proxy.metrics.failed(false, "accept")
			p.proxy.log.Error("no connection can be accepted", "port", p.of.Listen, "error", err)
			pause := time.NewTimer(acceptPause)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
			pause.Stop()
		}
	}
}

// take has a connection served.
func (p *port) take(ctx context.Context, conn net.Conn) {
	c := newClientConn(conn, p)
	if !p.proxy.clients.add(c) {
		_ = conn.Close()
		return
	}
	p.proxy.serving.Go(func() {
		switch p.of.Protocol {
		case intercept.HTTP:
			p.serveHTTP(ctx, c)
		case intercept.Detect:
			p.detect(ctx, c)
		default:
			p.pass(ctx, c)
		}
	})
}

// serveHTTP finds out which HTTP it is, and has it served. What is not HTTP passes to the baseline: a port is called http that
// carries TLS, which only its two sides have to know.
func (p *port) serveHTTP(ctx context.Context, c *clientConn) {
	_ = c.SetReadDeadline(time.Now().Add(IdleTimeout))
	first := make([]byte, 0, mostOnHTTP)
	for {
		n, err := c.Conn.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		if err != nil {
			_ = c.Close()
			return
		}
		spoken := classifyOnHTTP(first)
		if spoken == undecided {
			_ = c.SetReadDeadline(time.Now().Add(p.proxy.opts.headerTimeout))
			continue
		}
		c.early = first
		if spoken == otherSpoken {
			p.proxy.metrics.detected.WithLabelValues(spoken.String()).Inc()
			p.pass(ctx, c)
			return
		}
		p.begin(c, spoken)
		return
	}
}

// begin has a connection served whose protocol is known.
func (p *port) begin(c *clientConn, spoken spoken) {
	if spoken == http1Spoken && p.serveQuick(c) {
		return
	}
	p.servers.give(c, spoken)
}

// pass passes a connection to the baseline as it is.
func (p *port) pass(ctx context.Context, c *clientConn) {
	baseline, err := p.proxy.dial(ctx, p.of.Baseline)
	if err != nil {
		p.lost(c, err)
		return
	}
	p.relay(ctx, c, relay.End{Conn: baseline})
}

// lost ends the connection of a client to a baseline that cannot be reached.
func (p *port) lost(c *clientConn, err error) {
	_ = c.Close()
	p.proxy.metrics.failed(false, causeConnect)
	p.proxy.log.Debug("the baseline accepts no connection", "port", p.of.Listen, "error", err)
}

// relay passes bytes both ways until both sides have ended.
func (p *port) relay(ctx context.Context, c *clientConn, backend relay.End) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Time{})
	p.proxy.metrics.passing.Inc()
	defer p.proxy.metrics.passing.Dec()
	p.passLonger(backend.Conn)
	early := c.early
	c.early = nil
	r := relay.Relay{
		Context: ctx, Idle: PassIdle, HalfIdle: HalfPassIdle,
		// Not the client's wrapper, which hides what can be spliced.
		Client: relay.End{Conn: c.Conn, Early: early}, Pod: backend,
	}
	if err := r.Run(); errors.Is(err, relay.ErrDefect) {
		p.proxy.metrics.failed(false, "defect")
		p.proxy.log.Error("a relay failed", "error", err)
	}
}

// passLonger gives a connection to a backend the time that what is not HTTP has for taking what it is sent.
func (p *port) passLonger(backend net.Conn) {
	if err := limitUntakenOf(backend, UntakenTimeout); err != nil { // it has ended, which the relay finds out
		p.proxy.log.Debug("a connection has no longer time", "error", err)
	}
}

// String names the port for people.
func (p *port) String() string {
	if p.of.Name != "" {
		return p.of.Name
	}
	return strconv.Itoa(int(p.of.Listen))
}
