// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/pkg/headroom"
)

// BenchmarkProxy is the whole path of a request, with kcp's answer cached, over loopback, next to
// Go's own reverse proxy with connections kept and buffers lent. Callers and pod are processes of
// their own; processor time per request is the proxy's alone, and depends little on what else the
// machine does. bench/proxy measures the same on the real stack.
func BenchmarkProxy(b *testing.B) {
	pod := startPeer(b, peerPod).line(b)
	b.Run("httputil", func(b *testing.B) {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: pod})
		transport := &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 256, DisableCompression: true}
		defer transport.CloseIdleConnections()
		proxy.Transport, proxy.BufferPool = transport, &lentBuffers{}
		server := httptest.NewServer(proxy)
		defer server.Close()
		measure(b, load.Subject{Address: server.Listener.Addr().String()})
	})
	b.Run("data plane", func(b *testing.B) {
		defer headroom.Keep(GarbageHeadroom)()
		w := newWorld(b, nil, func(s *setup) {
			l := &s.opts.Limits
			l.WorkspaceRate, l.WorkspaceBurst, l.InstanceRate, l.InstanceBurst = 1e9, 1e9, 1e9, 1e9
			s.opts.AuditLog = filepath.Join(b.TempDir(), "audit.log")
			s.logLevel = slog.LevelInfo
			s.backendAddress = pod
		})
		measure(b, load.Subject{
			Address: strings.TrimPrefix(w.url, "http://"), Path: demo + "proxy",
			Header: "Authorization: Bearer " + adminToken + "\r\n",
		})
	})
}

// lentBuffers are httputil's, as large as ours.
type lentBuffers struct{ pool sync.Pool }

func (p *lentBuffers) Get() []byte {
	if b, ok := p.pool.Get().(*[32 << 10]byte); ok {
		return b[:]
	}
	return make([]byte, 32<<10)
}

func (p *lentBuffers) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }

func measure(b *testing.B, s load.Subject) {
	callers := startPeer(b, peerCallers)
	b.ReportAllocs()
	requests, before := 0, used(b)
	for b.Loop() {
		if err := json.NewEncoder(callers.in).Encode(order{Address: s.Address, Path: s.Path, Header: s.Header}); err != nil {
			b.Fatal(err)
		}
		n, err := strconv.Atoi(callers.line(b))
		if err != nil {
			b.Fatal(err)
		}
		requests += n
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64((used(b)-before).Nanoseconds())/1000/float64(requests), "cpu-µs/request")
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
