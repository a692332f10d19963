// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/headroom"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
	"github.com/sandbar-dev/sandbar/proxy"
)

// serve is one of the processes of the benchmark.
func serve(ctx context.Context, name, listen, to string, sandboxes int) error {
	switch name {
	case "upstream":
		return serveUpstream(ctx, listen)
	case httputilName:
		return serveReverseProxy(ctx, listen, to, sandboxes)
	case sandbar:
		return serveSandbar(ctx, listen, to, sandboxes)
	}
	return fmt.Errorf("%q is not a process of the benchmark", name)
}

var answered = []byte(strings.Repeat("x", 1024))

// serveUpstream answers with 1 KiB, as cheaply as net/http can.
func serveUpstream(ctx context.Context, listen string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return untilEnd(ctx, cheap{l}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Length"] = []string{strconv.Itoa(len(answered))}
		h["Content-Type"] = []string{"text/plain"}
		_, _ = w.Write(answered)
	}))
}

type cheap struct{ net.Listener }

func (c cheap) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return rawconn.Of(conn), nil
}

func untilEnd(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler} //nolint:gosec // on loopback, as bare as it comes
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// serveSandbar is Sandbar's proxy, with a document that does not change.
func serveSandbar(ctx context.Context, listen, to string, sandboxes int) error {
	defer headroom.Keep(proxy.GarbageHeadroom)()
	_, text, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("reading the address: %w", err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("reading the address: %w", err)
	}
	config := intercept.Config{Service: "bench", Ports: []intercept.Port{{Listen: int32(port), Baseline: to, Protocol: intercept.HTTP}}}
	for n := range sandboxes {
		config.Rules = append(config.Rules, intercept.Rule{ID: id(n), Header: "baggage", Backends: []intercept.Backend{{Address: to, Weight: 1}}})
	}
	document, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	p, err := proxy.New(proxy.Options{
		Service: "bench", Namespace: "bench", AdminAddress: "127.0.0.1:0", Drain: 1, Logger: slog.New(slog.DiscardHandler),
		Lookup: func(context.Context, string, string) ([]netip.Addr, error) { // there is no cluster
			at, err := netip.ParseAddrPort(to)
			return []netip.Addr{at.Addr()}, err //nolint:wrapcheck // the proxy says what it is about
		},
	}, one(document))
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// one is a document that does not change.
type one []byte

// Watch implements proxy.Documents.
func (o one) Watch(ctx context.Context, apply func([]byte)) error {
	apply(o)
	<-ctx.Done()
	return nil
}

// serveReverseProxy is Go's reverse proxy as a user would write it: connections are kept, buffers are lent, and the upstream
// is looked up by the ID.
func serveReverseProxy(ctx context.Context, listen, to string, sandboxes int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	copies, baseline := map[string]*url.URL{}, &url.URL{Scheme: "http", Host: to}
	for n := range sandboxes {
		copies[id(n)] = &url.URL{Scheme: "http", Host: to}
	}
	entry := regexp.MustCompile(`(?:^|,)[ \t]*sandbox[ \t]*=[ \t]*([^ \t;,]+)[ \t]*(?:[;,]|$)`)
	return untilEnd(ctx, l, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			target := baseline
			if found := entry.FindStringSubmatch(r.In.Header.Get("Baggage")); found != nil && copies[found[1]] != nil {
				target = copies[found[1]]
			}
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
		Transport:  &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: &buffers{},
	})
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if got, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return got[:]
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }
