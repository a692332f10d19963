// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
)

// A benchmark of the proxy wants callers and pod in processes of their own: what they cost is not
// the proxy's, and on the proxy's own scheduler waking one up would be almost free. So this test
// binary starts itself again as one of them.
const (
	peerVariable = "SANDBAR_BENCHMARK_PEER"
	peerPod      = "pod"
	peerCallers  = "callers"
	peerIdle     = "idle"
)

// servePeer is what such a process does until its standard input ends; false in any other.
func servePeer() bool {
	role := os.Getenv(peerVariable)
	switch role {
	case peerPod:
		servePod()
	case peerCallers:
		serveCallers()
	case peerIdle:
		serveIdle()
	}
	return role != ""
}

func servePod() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	body := make([]byte, 1024)
	pod := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	go func() { _ = (&http.Server{Handler: pod, ReadHeaderTimeout: time.Minute}).Serve(l) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveCallers does as it is told, an order at a time.
func serveCallers() {
	for orders := json.NewDecoder(os.Stdin); ; {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		s := load.Subject{Name: "proxy", Address: o.Address, Path: o.Path, Header: o.Header}
		got, err := load.Closed(context.Background(), s, "/x", 16, 100*time.Millisecond)
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(len(got.Latencies))
		}
	}
}

// serveIdle holds connections that were used once, and says how many.
func serveIdle() {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		panic(err)
	}
	attackers := siege{world: &world{url: "http://" + o.Address}}
	conns := make(chan net.Conn, o.Connections)
	many(50, func(worker int) {
		for i := worker; i < o.Connections; i += 50 {
			conn := attackers.attacker(i)
			if conn == nil {
				return
			}
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
			if readAnswer(conn) == http.StatusOK {
				conns <- conn
			}
		}
	})
	fmt.Println(len(conns))
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(conns)
	for conn := range conns {
		conn.Close()
	}
}

// order is what callers are told: a load.Subject.
type order struct {
	Address, Path, Header string
	// Connections are for peerIdle.
	Connections int
}

// peer is such a process.
type peer struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startPeer(b testing.TB, role string) *peer {
	b.Helper()
	own, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), own)
	cmd.Env = append(os.Environ(), peerVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &peer{in: in, out: bufio.NewReader(out)}
}

// line is the next one that the peer says.
func (p *peer) line(b testing.TB) string {
	b.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}
