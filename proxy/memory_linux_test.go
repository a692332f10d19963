// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

const (
	// podMemory is the limit of a proxy's container (package intercept), and podMargin what is not for connections in percent: the
	// program, what the kernel holds for sockets, and answers on their way.
	podMemory = 512 << 20
	podMargin = 40
	// measured is how many connections are made of each kind.
	measured = 200
)

// All that a pod may hold, it can hold. The two sides of the proxy are sockets without any code here, so that what is measured is
// the proxy's.
func TestTheMemoryOfAllConnectionsFitsIntoAPod(t *testing.T) {
	if isRace {
		t.Skip("the race detector needs memory of its own")
	}
	const plain = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, says string
		protocol   intercept.Protocol
	}{
		{"of HTTP that says nothing", "", intercept.HTTP},
		{"with the half of a header", plain[:len(plain)-2], intercept.HTTP},
		{"with a request of HTTP/1.1", plain, intercept.HTTP},
		{"with a body of HTTP/1.1", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx", intercept.HTTP},
		{"of HTTP/2 without a request", startOfHTTP2(t, false), intercept.HTTP},
		{"of HTTP/2 with a request", startOfHTTP2(t, true), intercept.HTTP},
		{"that is not HTTP", "\x00", intercept.TCP},
		{"whose protocol is not known", "", intercept.Detect},
	} {
		t.Run(c.name, func(t *testing.T) {
			baseline := silentBaseline(t)
			w := newWorld(t, c.protocol, baseline, "")
			_ = w.dial() // so that all is there that is there once
			eventually(t, "one is held", func() bool { return valueOf(w.proxy.metrics.connections) == 1 })
			before := held()
			for range measured {
				_, _ = io.WriteString(w.dial(), c.says)
			}
			eventually(t, "all are held", func() bool { return valueOf(w.proxy.metrics.connections) == measured+1 })
			each := settled(before) / measured
			all := each * DefaultConnections
			t.Logf("%d bytes each, %d MiB for %d", each, all>>20, DefaultConnections)
			if each < 512 {
				t.Error("which is less than a connection can have")
			}
			if most := int64(podMemory) / 100 * (100 - podMargin); all > most {
				t.Errorf("%d bytes each are %d MiB for %d, more than %d", each, all>>20, DefaultConnections, most>>20)
			}
		})
	}
}

// held is what the process has in use.
func held() uint64 {
	var stats runtime.MemStats
	for range 3 { // pools keep what they have for two
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// settled is how much more is held once that grows no more.
func settled(before uint64) (more int64) {
	for same := 0; same < 3; {
		now := int64(held()) - int64(before)
		if now <= more+more/100 {
			same++
		} else {
			same, more = 0, now
		}
	}
	return more
}

// silentBaseline accepts connections, by its kernel alone, and says nothing.
func silentBaseline(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 2*measured); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*unix.SockaddrInet4).Port))
}

// startOfHTTP2 is what a client of HTTP/2 begins with.
func startOfHTTP2(t *testing.T, asks bool) string {
	t.Helper()
	var out, head bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if asks {
		encoder := hpack.NewEncoder(&head)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "x"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
