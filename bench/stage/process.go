// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// RSS is the resident memory of the data plane in MiB: the least of some samples, after what was
// only in passing has gone.
func (s *Stage) RSS(ctx context.Context) (float64, error) {
	least := 0.0
	for i := range 8 {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
		now, err := Memory(s.Replica.PID(), "VmRSS")
		if err != nil {
			return 0, err
		}
		if i == 0 || now < least {
			least = now
		}
	}
	return least, nil
}

// Memory is a figure of a process in MiB: VmRSS for what is resident now, VmHWM for the most that
// ever was.
func Memory(pid int, figure string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, figure+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("a process's status has no %s", figure)
}

// Route leads to the pod: the address to dial, and the path there that stands for the pod's root.
type Route struct{ Address, Prefix string }

// Through is the route through a data plane.
func (s *Stage) Through(r *local.Replica) Route {
	return Route{Address: strings.TrimPrefix(r.URL, "http://"), Prefix: s.Proxy}
}

// Switch opens an upgraded connection to a path of bench/pod.
func (s *Stage) Switch(ctx context.Context, path string, route Route) (net.Conn, *bufio.Reader, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", route.Address)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer %s\r\n\r\n", route.Prefix, path, s.Tenant.Token)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	in := bufio.NewReaderSize(conn, 1<<10)
	res, err := http.ReadResponse(in, nil) //nolint:bodyclose // a 101 has none, and the connection is closed with it
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, nil, errors.Join(fmt.Errorf("opening %s: %s", path, res.Status), conn.Close())
	}
	return conn, in, conn.SetDeadline(time.Time{})
}

// MaxStreams is how many streams the limit of open files leaves a process: each takes two.
func MaxStreams() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const others = 200
	return int(limit.Max-others) / 2
}

// Idle opens many connections that carry nothing.
func (s *Stage) Idle(ctx context.Context, n int) (closeAll func(), err error) {
	conns := make([]net.Conn, 0, n)
	closeAll = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	for range n {
		conn, _, err := s.Switch(ctx, "/idle", s.Through(s.Replica))
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("opening connection %d: %w", len(conns)+1, err)
		}
		conns = append(conns, conn)
	}
	return closeAll, nil
}
