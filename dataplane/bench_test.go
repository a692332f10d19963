// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
)

// BenchmarkProxy is the whole path of a request, with kcp's answer cached, over loopback, next to
// Go's own reverse proxy with connections kept. Client, proxy and pod share the process;
// bench/proxy measures them apart. Processor time per request is what to compare: it depends
// least on what else the machine does.
func BenchmarkProxy(b *testing.B) {
	body := make([]byte, 1024)
	pod := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	b.Run("pod itself", func(b *testing.B) {
		server := httptest.NewServer(pod)
		defer server.Close()
		measure(b, load.Subject{Address: server.Listener.Addr().String()})
	})
	b.Run("httputil", func(b *testing.B) {
		behind := httptest.NewServer(pod)
		defer behind.Close()
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind.Listener.Addr().String()})
		transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
		defer transport.CloseIdleConnections()
		proxy.Transport = transport
		server := httptest.NewServer(proxy)
		defer server.Close()
		measure(b, load.Subject{Address: server.Listener.Addr().String()})
	})
	b.Run("data plane", func(b *testing.B) {
		w := newWorld(b, pod, func(s *setup) {
			s.opts.Limits.WorkspaceRate, s.opts.Limits.WorkspaceBurst = 1e9, 1e9
			s.opts.AuditLog = filepath.Join(b.TempDir(), "audit.log")
			s.logLevel = slog.LevelInfo
		})
		measure(b, load.Subject{
			Address: strings.TrimPrefix(w.url, "http://"), Path: demo + "proxy",
			Header: "Authorization: Bearer " + adminToken + "\r\n",
		})
	})
}

func measure(b *testing.B, s load.Subject) {
	s.Name = b.Name()
	b.ReportAllocs()
	requests, before := 0, used(b)
	for b.Loop() {
		got, err := load.Closed(b.Context(), s, "/x", 16, 100*time.Millisecond)
		if err != nil {
			b.Fatal(err)
		}
		requests += len(got.Latencies)
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
