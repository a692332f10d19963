// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
)

// BenchmarkProxy is the whole path of a request, with kcp's answer cached, over loopback. Client,
// data plane and pod share the process; bench/proxy measures them apart.
func BenchmarkProxy(b *testing.B) {
	body := make([]byte, 1024)
	w := newWorld(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }), func(s *setup) {
		s.opts.Limits.WorkspaceRate, s.opts.Limits.WorkspaceBurst = 1e9, 1e9
	})
	subject := load.Subject{
		Name: "data plane", Address: strings.TrimPrefix(w.url, "http://"), Path: demo + "proxy",
		Header: "Authorization: Bearer " + adminToken + "\r\n",
	}
	b.ReportAllocs()
	requests := 0
	for b.Loop() {
		got, err := load.Closed(b.Context(), subject, "/x", 16, 100*time.Millisecond)
		if err != nil {
			b.Fatal(err)
		}
		requests += len(got.Latencies)
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
}
