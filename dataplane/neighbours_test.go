// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	victimToken = "token-of-the-victim-51cd"
	victimPath  = "/dataplane/clusters/root:beta:dev/sandboxrunners/victim/sync"
)

// siege is a world in which one tenant, or a stranger, attacks while another goes on working: the
// attacked instance is demo, the victim's is in a workspace of its own with a pod of its own.
type siege struct {
	*world
	victim *http.Client
	// pace is the time between two requests of the victim; zero for as fast as it can.
	pace time.Duration
}

func newSiege(t *testing.T, pod http.Handler, changes ...func(*setup)) *siege {
	t.Helper()
	// The victim works as fast as it can, and must not meet its own rate. A test that is about the
	// rate sets another.
	fast := func(s *setup) {
		l := &s.opts.Limits
		l.WorkspaceRate, l.WorkspaceBurst, l.InstanceRate, l.InstanceBurst = 1e6, 1e6, 1e6, 1e6
	}
	w := newWorld(t, pod, append([]func(*setup){fast}, changes...)...)
	w.kcp.set(func() { w.kcp.clusters["root:beta:dev"], w.kcp.clusters["cluster2"] = "cluster2", "cluster2" })
	w.kcp.grant(victimToken, "*")
	w.kcp.bind("cluster2", fakeBinding{path: "root:beta:dev", phase: "Bound", accepted: true})
	id := placement.ID{Origin: "cluster2", UID: "uid-victim"}
	w.kcp.addInstance("cluster2", "default", "victim", id.UID)
	own := httptest.NewServer(recorder())
	t.Cleanup(own.Close)
	w.newPlacement(id, "victim", own.Listener.Addr().String())
	// The victim is another machine: it comes from an address of its own.
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	s := &siege{world: w, victim: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
	s.work()
	return s
}

// overTLS has the data plane serve TLS, and so HTTP/2.
func overTLS(t *testing.T) func(*setup) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key, 1)
	return func(s *setup) { s.opts.Insecure, s.opts.CertFile, s.opts.KeyFile = false, cert, key }
}

// work is one request of the victim, which must succeed, and how long it took.
func (s *siege) work() time.Duration {
	s.t.Helper()
	url := s.url
	if !s.server.opts.Insecure {
		url = strings.Replace(url, "http:", "https:", 1)
	}
	req, err := http.NewRequest(http.MethodPost, url+victimPath, strings.NewReader("work"))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+victimToken)
	started := time.Now()
	res, err := s.victim.Do(req)
	if err != nil {
		s.t.Fatalf("the victim: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("the victim got %d", res.StatusCode)
	}
	return time.Since(started)
}

// under runs an attack while the victim works, and checks what the attack may cost: goroutines
// and heap, the attacker's own included since it runs in this process, go up by no more than is
// said and come back when it has ended.
func (s *siege) under(goroutines int, heapMiB uint64, attack func(context.Context)) {
	s.t.Helper()
	runtime.GC()
	goroutinesBefore, heapBefore := runtime.NumGoroutine(), heapInUse()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { defer done.Store(true); attack(ctx) })
	var mostGoroutines int
	var mostHeap uint64
	for worked := 0; worked < 50 || !done.Load(); worked++ {
		s.work()
		<-time.After(s.pace)
		mostGoroutines, mostHeap = max(mostGoroutines, runtime.NumGoroutine()), max(mostHeap, heapAbove(heapBefore+heapMiB<<20))
	}
	wg.Wait()
	if mostGoroutines > goroutinesBefore+goroutines {
		s.t.Errorf("goroutines went from %d to %d, more than %d above", goroutinesBefore, mostGoroutines, goroutines)
	}
	if mostHeap > heapBefore+heapMiB<<20 {
		s.t.Errorf("the heap went from %d to %d MiB, more than %d above", heapBefore>>20, mostHeap>>20, heapMiB)
	}
	eventually(s.t, "the attack's goroutines are gone", func() bool {
		s.server.handler.ways.CloseIdleConnections() // each has a goroutine in the pods' servers, which run here too
		return runtime.NumGoroutine() <= goroutinesBefore+20
	})
	eventually(s.t, "the attack's requests are gone", func() bool {
		return s.server.handler.limits.UnderWay() == 0
	})
	s.work()
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// heapAbove is the heap, without garbage if that could make a difference.
func heapAbove(limit uint64) uint64 {
	heap := heapInUse()
	if heap > limit {
		runtime.GC()
		heap = heapInUse()
	}
	return heap
}

// many runs an attack n times at once.
func many(n int, attack func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { attack(i) })
	}
	wg.Wait()
}

// attacker opens a connection from one of the attackers' addresses.
func (s *siege) attacker(i int) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))}}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn
}

// holdIdle has another process hold n connections until release is called: one process may not open
// enough files for both ends.
func (s *siege) holdIdle(n int) (release func()) {
	s.t.Helper()
	callers := startPeer(s.t, peerIdle)
	if err := json.NewEncoder(callers.in).Encode(order{Address: s.address(), Connections: n}); err != nil {
		s.t.Error(err)
	}
	if held := callers.line(s.t); held != strconv.Itoa(n) {
		s.t.Errorf("%s of %d connections were served", held, n)
	}
	return func() { callers.in.Close() }
}

// raiseFiles allows as many open files as an attack needs, and tells whether it could.
func raiseFiles(t *testing.T, n uint64) bool {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return true
	}
	before := limit
	limit.Cur, limit.Max = n, max(n, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return false
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) })
	return true
}

// authorized is the head of an attacker's request up to and without its end.
func authorized(method, path string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n", method, path, adminToken)
}
