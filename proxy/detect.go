// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/relay"
)

const (
	// decideWithin is how long the first line of a client takes at most, from its first byte on. After that it is not HTTP.
	decideWithin = 10 * time.Second
	// silentWithout is how long a client may be silent whose baseline accepts no connection: time enough for a request
	// that is on its way, which may be for a copy.
	silentWithout = 2 * time.Second
	// serverFirst is how much of what a server says first is read with the first look.
	serverFirst = 512
)

// detection finds out whether a connection is HTTP, while the client and the baseline have said nothing yet.
//
// The baseline is connected at once, because in some protocols the server speaks first, and a client of these waits for
// it. The first of the two to say something decides: a client that says the line of a request, for HTTP, and the connection
// to the baseline is given up unused; anything else for the baseline.
type detection struct {
	port   *port
	client *clientConn
	// settled is set once it is decided, by the side that decided first.
	settled atomic.Bool
	// watched is closed when nothing waits for the baseline any more; the fields below are the result.
	watched  chan struct{}
	baseline net.Conn
	said     []byte
	err      error
	// dialled holds the connection while something waits for the baseline.
	dialled atomic.Pointer[net.Conn]
	// abandoned is set when the connection is not wanted any more.
	abandoned atomic.Bool
}

// past is a deadline that ends a read that waits.
var past = time.Unix(1, 0)

func (p *port) detect(ctx context.Context, c *clientConn) {
	d := &detection{port: p, client: c, watched: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.proxy.serving.Go(func() { d.watch(ctx) })
	first, spoken := d.listen()
	if (spoken == http1Spoken || spoken == http2Spoken) && d.settled.CompareAndSwap(false, true) {
		p.proxy.metrics.detected.WithLabelValues(spoken.String()).Inc()
		cancel()
		d.abandon()
		<-d.watched // or it would set a deadline behind the next line
		_ = c.SetReadDeadline(time.Time{})
		c.early = first
		p.begin(c, spoken)
		return
	}
	d.settled.Store(true)
	d.interrupt()
	<-d.watched
	if d.err != nil {
		p.lost(c, d.err)
		return
	}
	p.proxy.metrics.detected.WithLabelValues(otherSpoken.String()).Inc()
	c.early = first
	p.relay(ctx, c, relay.End{Conn: d.baseline, Early: d.said})
}

// listen reads what the client says first, until that decides, or the baseline was faster.
func (d *detection) listen() ([]byte, spoken) {
	first := make([]byte, 0, serverFirst)
	for {
		if len(first) == cap(first) {
			first = append(make([]byte, 0, 2*cap(first)), first...)
		}
		n, err := d.client.Conn.Read(first[len(first):cap(first)])
		if n > 0 && len(first) == 0 && !d.settled.Load() {
			_ = d.client.SetReadDeadline(time.Now().Add(decideWithin))
			if d.settled.Load() {
				_ = d.client.SetReadDeadline(past)
			}
		}
		first = first[:len(first)+n]
		if spoken := classify(first); spoken != undecided || err != nil {
			return first, spoken
		}
	}
}

// watch connects to the baseline and waits for what it says before the client does.
func (d *detection) watch(ctx context.Context) {
	defer close(d.watched)
	d.baseline, d.err = d.port.proxy.dial(ctx, d.port.of.Baseline)
	if d.err != nil {
		if !d.settled.Load() {
			_ = d.client.SetReadDeadline(time.Now().Add(silentWithout))
		}
		return
	}
	d.dialled.Store(&d.baseline)
	if d.abandoned.Load() {
		_ = d.baseline.Close()
		return
	}
	if d.settled.Load() {
		return
	}
	said := make([]byte, serverFirst)
	n, err := d.baseline.Read(said)
	d.said = said[:n]
	if !errors.Is(err, os.ErrDeadlineExceeded) && d.settled.CompareAndSwap(false, true) {
		_ = d.client.SetReadDeadline(past)
	}
	_ = d.baseline.SetReadDeadline(time.Time{})
}

// interrupt ends the wait for the baseline.
func (d *detection) interrupt() {
	if baseline := d.dialled.Load(); baseline != nil {
		_ = (*baseline).SetReadDeadline(past)
	}
}

// abandon gives the connection to the baseline up.
func (d *detection) abandon() {
	d.abandoned.Store(true)
	if baseline := d.dialled.Load(); baseline != nil {
		_ = (*baseline).Close()
	}
}
