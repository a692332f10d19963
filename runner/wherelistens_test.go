// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// told runs a watch over what each look finds, the last again and again, and returns its lines.
func told(t *testing.T, port int, looks ...[]netip.AddrPort) []string {
	t.Helper()
	var lines []string
	p := portTeller{
		port: port, after: time.Millisecond, every: time.Millisecond, until: 50 * time.Millisecond,
		listening: func() ([]netip.AddrPort, error) {
			look := looks[0]
			looks = looks[min(1, len(looks)-1):]
			return look, nil
		},
		tell: func(attempt uint32, line string) {
			if attempt != 7 {
				t.Errorf("it is told of attempt %d", attempt)
			}
			lines = append(lines, line)
		},
	}
	p.watch(t.Context(), 7)
	return lines
}

func at(addresses ...string) (found []netip.AddrPort) {
	for _, address := range addresses {
		found = append(found, netip.MustParseAddrPort(address))
	}
	return found
}

// closedPort is a port on which nothing listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAnAppThatListensElsewhereIsToldOnce(t *testing.T) {
	const port = 1 // nothing listens there, and a connection is refused
	for name, c := range map[string]struct {
		looks [][]netip.AddrPort
		want  []string
	}{
		"another port":          {[][]netip.AddrPort{at("127.0.0.1:5173")}, []string{"at 127.0.0.1:5173 so far", "lead to port 1", "($PORT)", "0.0.0.0"}},
		"loopback alone":        {[][]netip.AddrPort{at("127.0.0.1:1")}, []string{"at 127.0.0.1:1,", "loopback", "on all addresses"}},
		"the port among others": {[][]netip.AddrPort{at("127.0.0.1:9229", "[::1]:1")}, []string{"127.0.0.1:9229, [::1]:1", "loopback"}},
		"only later":            {[][]netip.AddrPort{nil, nil, at("0.0.0.0:8000")}, []string{"0.0.0.0:8000"}},
		"more than is worth it": {[][]netip.AddrPort{at("0.0.0.0:2", "0.0.0.0:3", "0.0.0.0:4", "0.0.0.0:5", "0.0.0.0:6", "0.0.0.0:7", "0.0.0.0:8")}, []string{"0.0.0.0:6, 2 more"}},
		"nothing that listens":  {[][]netip.AddrPort{nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lines := told(t, port, c.looks...)
			if len(lines) != min(1, len(c.want)) {
				t.Fatalf("it is told %q", lines)
			}
			for _, want := range c.want {
				if !strings.Contains(lines[0], want) {
					t.Errorf("it is told %q, without %q", lines[0], want)
				}
			}
		})
	}
}

func TestAnAppThatIsReachedIsToldNothing(t *testing.T) {
	if outsideAddress() == "" {
		t.Skip("this machine has no address but the loopback's")
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if lines := told(t, l.Addr().(*net.TCPAddr).Port, at("127.0.0.1:9229")); len(lines) > 0 {
		t.Errorf("it is told %q", lines)
	}
}

func TestNothingIsToldOfAnAttemptThatEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tell := func(uint32, string) { t.Error("it is told") }
	portTeller{port: closedPort(t), after: time.Hour, until: time.Hour, tell: tell}.watch(ctx, 1)
	failing := func() ([]netip.AddrPort, error) { return nil, errors.New("no table") }
	portTeller{port: closedPort(t), until: time.Hour, listening: failing, tell: tell}.watch(t.Context(), 1)
}
