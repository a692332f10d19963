// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/http1"
)

// GarbageHeadroom is how much the heap of a proxy may grow between two garbage collections.
const GarbageHeadroom = 32 << 20

// Proxy is in front of a Service.
type Proxy struct {
	opts      Options
	documents Documents
	log       *slog.Logger
	metrics   *metrics
	access    *accessLog
	state     *state
	clients   *clients
	// answering are requests that are served without a server (quick).
	answering tally
	slots     *slots
	led       *led
	reach     *reach
	behind    *behind
	uploads   *uploads
	dialer    *net.Dialer
	// domain is that of the cluster's Services.
	domain string

	// baseline and copies are the clients of HTTP/1.1.
	baseline, copies *http1.Transport

	ports []*port
	// serving are goroutines of connections that no server has.
	serving sync.WaitGroup
	// passing ends connections that are not HTTP, or not any more.
	passing    context.Context //nolint:containedctx // the life of what has no request any more
	endPassing context.CancelFunc
	// failing lets some of what fails into the log: it is clients who say how often.
	failing rate.Sometimes

	// bound is set once the ports are, and closed once they are not any more. moved is set when the baseline has another address.
	bound, closed, moved atomic.Bool
}

// New makes a Proxy. Nothing is listened to until Run.
func New(opts Options, documents Documents) (*Proxy, error) {
	opts.SetDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("checking the options: %w", err)
	}
	p := &Proxy{opts: opts, documents: documents, log: opts.Logger.With("service", opts.Service)}
	p.metrics = newMetrics(func() bool { return p.state.draining.Load() })
	p.state = newState(opts.Service, p.log, p.metrics)
	p.state.onDrain = p.goAway
	p.domain = clusterDomain(resolvConf)
	p.behind = newBehind(&opts, p.domain, p.log)
	p.state.check = func(ports []intercept.Port) error { _, err := p.behind.addressOf(ports); return err }
	p.clients = &clients{most: opts.Connections, metrics: p.metrics, conns: map[*clientConn]struct{}{}}
	p.slots = newSlots(opts.CopyRequests, opts.CopiesRequests)
	p.led = &led{within: opts.Drain, table: p.state.table.Load(), conns: map[*ledConn]struct{}{}}
	p.state.onTable = p.led.apply
	p.reach = newReach(p.log, func(ctx context.Context, address string) error { return opts.probe(ctx, absolute(address, p.domain)) })
	p.dialer = newDialer(opts.untaken)
	p.uploads = &uploads{log: p.log, untaken: opts.untaken, shut: ShutTimeout, on: map[net.Conn]*uploading{}}
	p.baseline, p.copies = p.newHTTP1(false), p.newHTTP1(true)
	if opts.AccessLog {
		p.access = &accessLog{to: opts.Access}
	}
	p.failing.Interval = failuresEvery
	p.passing, p.endPassing = context.WithCancel(context.Background())
	return p, nil
}

// http1 returns the client for where a request goes.
func (p *Proxy) http1(copied bool) *http1.Transport {
	if copied {
		return p.copies
	}
	return p.baseline
}

// Run serves from the first document on, until ctx ends, and then drains. It returns nil after that.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.endPassing()
	listener, err := listenAdmin(ctx, p.opts.AdminAddress)
	if err != nil {
		return err
	}
	admin := p.admin()
	// What is watched, and the admin port, outlive ctx: they are there while the proxy drains.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, lasting := errgroup.WithContext(lasting)
	group.Go(func() error { return p.documents.Watch(lasting, p.state.apply) })
	group.Go(func() error {
		if err := admin.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the admin port: %w", err)
		}
		return nil
	})
	err = p.serve(ctx, lasting)
	stop()
	_ = admin.Close()
	return errors.Join(err, group.Wait())
}

// serve waits for the first document, and serves until ctx ends or something that lasts has failed.
func (p *Proxy) serve(ctx, lasting context.Context) error {
	select {
	case <-p.state.first:
	case <-ctx.Done():
		return nil
	case <-lasting.Done():
		return nil
	}
	if !p.confirm(ctx, lasting) {
		return nil
	}
	if err := p.listen(ctx); err != nil {
		return err
	}
	p.bound.Store(true)
	var watching sync.WaitGroup
	watch, endWatch := context.WithCancel(context.Background())
	watching.Go(func() { p.watchClients(watch) })
	watching.Go(func() { p.reach.watch(watch) })
	moved := make(chan error, 1)
	watching.Go(func() { moved <- p.behind.watch(watch, p.state.listensAt()) })
	watching.Go(func() { p.uploads.watch(watch) })
	var err error
	select {
	case <-ctx.Done():
	case <-lasting.Done():
	case err = <-moved:
		p.moved.Store(true)
	}
	p.drain()
	endWatch()
	watching.Wait()
	return err
}

// confirm waits until the ports lead to the Service's own pods. It is false if one of the contexts has ended before.
func (p *Proxy) confirm(ctx, lasting context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(lasting, cancel)()
	return p.behind.confirm(ctx, p.state)
}

// watchEvery is how often it is looked which requests take long.
const watchEvery = 100 * time.Millisecond

// watchClients has requests end whose client has gone, where no server does.
func (p *Proxy) watchClients(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if p.answering.some() {
				p.clients.watch(now)
			}
		}
	}
}

// listen binds the ports of the first document, all or none.
func (p *Proxy) listen(ctx context.Context) error {
	for _, of := range p.state.listensAt() {
		listener, err := p.bind(ctx, of)
		if err != nil {
			for _, bound := range p.ports {
				_ = bound.listener.Close()
			}
			return fmt.Errorf("port %d of the document: %w", of.Listen, err)
		}
		bound := &port{proxy: p, of: of, listener: listener}
		bound.servers = newServers(bound, listener.Addr(), p.opts.headerTimeout)
		p.ports = append(p.ports, bound)
	}
	p.reach.begin(p.state.listensAt())
	for _, bound := range p.ports {
		p.serving.Go(func() { bound.accept(p.passing) })
		p.log.Info("listening", "port", bound.of.Listen, "protocol", bound.of.Protocol, "baseline", bound.of.Baseline)
	}
	return nil
}

func controlClients(_, _ string, conn syscall.RawConn) error {
	return limitUntaken(conn, UntakenTimeout)
}

func (p *Proxy) bind(ctx context.Context, of intercept.Port) (net.Listener, error) {
	if p.opts.listen != nil {
		return p.opts.listen(of.Listen)
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive, Control: controlClients}
	return config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(int(of.Listen)))) //nolint:wrapcheck // listen says what it is about
}
