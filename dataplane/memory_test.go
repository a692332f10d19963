// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
)

// BenchmarkIdleStreams is what an upgraded connection that carries nothing holds: heap that is
// alive, and stacks. The caller and the pod share the process, and are little more than their two
// sockets. What the process takes from its machine is measured by bench/memory and bench/relay.
func BenchmarkIdleStreams(b *testing.B) {
	const streams = 500
	pod := quietPod(b)
	w := newWorld(b, nil, func(s *setup) {
		s.backendAddress = pod
		l := &s.opts.Limits
		l.WorkspaceRate, l.WorkspaceBurst, l.InstanceRate, l.InstanceBurst = 1e9, 1e9, 1e9, 1e9
		l.InstanceStreams, l.WorkspaceStreams = 1e9, 1e9
	})
	openStream(b, w).Close() // fills caches
	var heap, stack, goroutines float64
	for b.Loop() {
		before, beforeGoroutines := settledMemory(), runtime.NumGoroutine()
		conns := make([]net.Conn, 0, streams)
		for range streams {
			conns = append(conns, openStream(b, w))
		}
		after := settledMemory()
		heap += float64(after.HeapAlloc) - float64(before.HeapAlloc)
		stack += float64(after.StackInuse) - float64(before.StackInuse)
		goroutines += float64(runtime.NumGoroutine() - beforeGoroutines)
		for _, conn := range conns {
			conn.Close()
		}
		eventually(b, "the streams have ended", func() bool { return runtime.NumGoroutine() <= beforeGoroutines+10 })
	}
	n := float64(b.N * streams)
	b.ReportMetric(heap/n, "heap-B/stream")
	b.ReportMetric(stack/n, "stack-B/stream")
	b.ReportMetric(goroutines/n, "goroutines/stream")
}

// settledMemory collects twice: the first collection shrinks stacks and empties pools halfway.
func settledMemory() (m runtime.MemStats) {
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

func openStream(b *testing.B, w *world) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", w.url[len("http://"):])
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+demo+"proxy HTTP/1.1\r\n"+handshakeLines+"\r\n"); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		b.Fatal(res, err)
	}
	// A close in order would be half a close to the relay, which then waits for the pod's half.
	_ = conn.(*net.TCPConn).SetLinger(0)
	return conn
}

// quietPod switches each connection and keeps it, without a goroutine, until its peer has closed it.
func quietPod(b *testing.B) (address string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			}
		}
	}()
	b.Cleanup(func() {
		l.Close()
		<-done
		for _, conn := range conns {
			conn.Close()
		}
	})
	return l.Addr().String()
}
