// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Gate stands before the runtime cluster's API server and fails as a network or a clock does. It
// serves every client with a kubeconfig that it has written.
type Gate struct {
	provider *Provider
	url      string
	listener *gateListener
	ahead    atomic.Int64
}

// NewGate starts a gate; it serves until ctx ends.
func (p *Provider) NewGate(ctx context.Context) (*Gate, error) {
	target := p.Stack.Runtime()
	transport, err := rest.TransportFor(&rest.Config{Host: target.Host, TLSClientConfig: rest.TLSClientConfig{CAData: target.CAData}})
	if err != nil {
		return nil, fmt.Errorf("connecting the gate: %w", err)
	}
	to, err := url.Parse(target.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the runtime cluster's address: %w", err)
	}
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the gate: %w", err)
	}
	_, port, err := net.SplitHostPort(inner.Addr().String())
	if err != nil {
		return nil, err
	}
	g := &Gate{provider: p, url: "https://localhost:" + port, listener: &gateListener{Listener: inner, conns: map[*gateConn]bool{}, opened: make(chan struct{})}}
	close(g.listener.opened)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: &httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
			Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
			ModifyResponse: g.setDate,
		},
	}
	go func() { _ = server.ServeTLS(g.listener, p.certs.cert, p.certs.key) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return g, nil
}

// setDate has answers come from an API server whose clock is set otherwise.
func (g *Gate) setDate(res *http.Response) error {
	if ahead := time.Duration(g.ahead.Load()); ahead != 0 {
		res.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	}
	return nil
}

// SetClock has the API server's clock be ahead by so much, as those see it who come through the gate.
func (g *Gate) SetClock(ahead time.Duration) { g.ahead.Store(int64(ahead)) }

// SetLag has what the API server says arrive so much later. It holds for what is sent from now on.
func (g *Gate) SetLag(lag time.Duration) { g.listener.lag.Store(int64(lag)) }

// Cut has nothing pass any more: what is sent disappears, as in a network that drops packets.
func (g *Gate) Cut() { g.listener.cut() }

// Join has everything pass again.
func (g *Gate) Join() { g.listener.join() }

// Kubeconfig writes a kubeconfig for the way through the gate, with the credential of another that lies
// in the provider's folder, and returns its path.
func (g *Gate) Kubeconfig(name string) (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(g.provider.Dir, name))
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	ca, err := os.ReadFile(g.provider.CAFile)
	if err != nil {
		return "", fmt.Errorf("reading the gate's CA: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = g.url, ca
	}
	path := filepath.Join(g.provider.Dir, "gate-"+name)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return path, nil
}

// gateListener accepts connections on which nothing moves while it is cut.
type gateListener struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*gateConn]bool
	opened chan struct{} // closed while everything passes
	lag    atomic.Int64  // of what is written, in nanoseconds
}

func (l *gateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gateConn{Conn: newLateConn(conn, &l.lag), gate: l, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

func (l *gateListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = make(chan struct{})
}

// join ends all connections that were stuck: what was sent on them is lost.
func (l *gateListener) join() {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[*gateConn]bool{}
	close(l.opened)
	l.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

func (l *gateListener) isOpen() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

// gateConn moves nothing while its gate is cut. What is read at that moment is held back.
type gateConn struct {
	net.Conn
	gate   *gateListener
	once   sync.Once
	closed chan struct{}
}

func (c *gateConn) wait() error {
	select {
	case <-c.gate.isOpen():
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *gateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if waitErr := c.wait(); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

func (c *gateConn) Write(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *gateConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}
