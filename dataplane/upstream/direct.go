// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

const (
	// refusedFor is how long an endpoint that accepted no connection comes last.
	refusedFor = 5 * time.Second
	// maxRefused bounds how many of those are remembered.
	maxRefused = 4096
	// maxAttempts is how many endpoints one request tries to reach.
	maxAttempts = 3
	// lagPatience is how long a request waits for what the informers do not agree about yet, and for
	// a control token that is being mended.
	lagPatience = 3 * time.Second
)

// direct dials pods. Connections are kept per destination, which belongs to one instance, so
// that what a pod might smuggle into an answer can hit no other tenant; and each remembers which
// pod it was made to, so that an address which goes to another pod never finds it.
type direct struct {
	cache   *locate.RuntimeCache
	tokens  *tokens
	changes *locate.Changes
	metrics *record.Metrics
	// permit says which addresses may be dialled; tests, whose pods are on loopback, have
	// their own.
	permit func(netip.Addr) bool
	*http1.Transport

	mu      sync.Mutex
	refused map[endpointKey]time.Time
}

func newDirect(cache *locate.RuntimeCache, tokens *tokens, changes *locate.Changes, m *record.Metrics) *direct {
	d := &direct{cache: cache, tokens: tokens, changes: changes, metrics: m, permit: isPodAddress, refused: map[endpointKey]time.Time{}}
	d.Transport = &http1.Transport{
		Upstream: d, MaxHeaderBytes: maxPodHeaderBytes, MaxIdlePerHost: maxIdlePerTarget, MaxIdle: maxIdle,
	}
	return d
}

// address is the URL under which a destination is reached.
func (d *direct) address(to locate.Destination) url.URL {
	return url.URL{Scheme: "http", Host: to.Host()}
}

// Dial implements http1.Upstream: it reaches a pod behind the destination that host stands for. It
// asks no DNS: what is checked is what is dialled.
func (d *direct) Dial(ctx context.Context, host string) (net.Conn, http1.Peer, error) {
	to, ok := locate.ReadHost(host)
	if !ok {
		return nil, nil, fmt.Errorf("reading the destination: %w", errNoEndpoint)
	}
	p, err := locate.Again(ctx, d.changes, to.Namespace, lagPatience, mayLag, func() (*podPeer, error) { return d.dial(ctx, to) })
	if err != nil {
		return nil, nil, err
	}
	return p.conn, p, nil
}

// mayLag reports whether an error may be gone in a moment, when the informers have caught up or the
// controllers have mended a Secret.
func mayLag(err error) bool {
	return errors.Is(err, errUnknownPod) || errors.Is(err, errOtherAddress) || errors.Is(err, errNoToken) || errors.Is(err, errUnproven)
}

// dial tries the pods behind a destination in random order, those that refused a moment ago last, so
// that one pod that is gone but not yet known to be does not fail the request.
func (d *direct) dial(ctx context.Context, to locate.Destination) (*podPeer, error) {
	endpoints := d.order(slices.Collect(d.ready(to)))
	if len(endpoints) == 0 {
		return nil, d.none(to)
	}
	var errs []error
	for _, e := range endpoints[:min(len(endpoints), maxAttempts)] {
		p, err := d.open(ctx, to, e)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// open makes a connection to one pod, and finds out how to show it that requests are ours.
func (d *direct) open(ctx context.Context, to locate.Destination, e readyPod) (*podPeer, error) {
	conn, err := d.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	p := &podPeer{direct: d, to: to, at: e.key(), conn: rawconn.Of(conn)}
	if p.credential, err = d.tokens.agree(ctx, to, e.pod, askOver(p.conn)); err != nil {
		if errors.Is(err, errNotAccepted) && ctx.Err() == nil {
			d.note(e.key(), true) // one that hangs is tried after the others
		}
		_ = conn.Close()
		return nil, err
	}
	return p, nil
}

func (d *direct) connect(ctx context.Context, e readyPod) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(e.ip, strconv.Itoa(e.port)))
	if err == nil || ctx.Err() == nil { // else it says nothing about the pod
		d.note(e.key(), err != nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotAccepted, err)
	}
	return conn, nil
}

// reach reports whether a pod behind a destination accepts a connection. Nothing is sent over it.
func (d *direct) reach(ctx context.Context, to locate.Destination) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	endpoints := d.order(slices.Collect(d.ready(to)))
	err := d.none(to)
	for _, e := range endpoints[:min(len(endpoints), maxAttempts)] {
		var conn net.Conn
		if conn, err = d.connect(ctx, e); err == nil {
			_ = conn.Close()
			return nil
		}
	}
	return err
}

func (d *direct) order(endpoints []readyPod) []readyPod {
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) == 0 {
		return endpoints
	}
	var last []readyPod
	first := endpoints[:0]
	for _, e := range endpoints {
		if time.Since(d.refused[e.key()]) < refusedFor {
			last = append(last, e)
		} else {
			first = append(first, e)
		}
	}
	return append(first, last...)
}

// note remembers whether an endpoint refused a connection.
func (d *direct) note(e endpointKey, refused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !refused {
		delete(d.refused, e)
		return
	}
	if len(d.refused) >= maxRefused {
		clear(d.refused) // to forget costs a try
	}
	d.refused[e] = time.Now()
}

// podPeer is the pod at the other end of one connection.
type podPeer struct {
	direct     *direct
	to         locate.Destination
	at         endpointKey
	conn       net.Conn
	credential *credential // nil if none is shown
}

// Serves implements http1.Peer.
func (p *podPeer) Serves() bool {
	return p.direct.stands(p.to, p.at) && p.credential.isGood(p.direct.tokens, p.to)
}

// AppendHeader implements http1.Peer.
func (p *podPeer) AppendHeader(head []byte, req *http.Request) []byte {
	if p.credential == nil {
		return head
	}
	if seen, ok := req.Context().Value(shownKey{}).(*shown); ok {
		seen.credential = p.credential
	}
	name, value := p.credential.header(req.Method, req.URL.Path, req.URL.RawQuery)
	p.direct.metrics.Shown(name == headers.ControlToken)
	head = append(append(head, name...), ": "...)
	return append(append(head, value...), "\r\n"...)
}
