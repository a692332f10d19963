// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// newTCPRelay is in front of a server and tells who connects.
func newTCPRelay(t *testing.T, to string, connected chan<- string) string {
	t.Helper()
	return newTCP(t, func(_ int, conn *net.TCPConn) {
		connected <- conn.RemoteAddr().String()
		backend, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(backend, conn); _ = backend.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(conn, backend)
		backend.Close()
	})
}

// greeter is a server that speaks first, and then answers each line in capitals.
func greeter(_ int, conn *net.TCPConn) {
	_, _ = io.WriteString(conn, "220 ready\r\n")
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			_, _ = io.WriteString(conn, "bye\r\n") // after the client has ended its half
			return
		}
		_, _ = io.WriteString(conn, strings.ToUpper(line))
	}
}

func TestAServerMaySpeakFirst(t *testing.T) {
	for _, protocol := range []intercept.Protocol{intercept.Detect, intercept.TCP} {
		t.Run(string(protocol), func(t *testing.T) {
			w := newWorld(t, protocol, newTCP(t, greeter), "")
			conn := w.dial()
			in := bufio.NewReader(conn)
			for _, c := range []struct{ say, want string }{{"", "220 ready\r\n"}, {"GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n"}, {"helo\r\n", "HELO\r\n"}} {
				_, _ = io.WriteString(conn, c.say)
				if got, err := in.ReadString('\n'); got != c.want {
					t.Fatalf("to %q the server said %q, %v", c.say, got, err)
				}
			}
			_ = conn.CloseWrite()
			if got, err := io.ReadAll(in); err != nil || string(got) != "bye\r\n" {
				t.Errorf("at the end %q, %v", got, err)
			}
		})
	}
}

// What a client says in parts is HTTP if it is HTTP in the end, over either protocol, however slowly.
func TestHTTPIsFoundInParts(t *testing.T) {
	w := newWorld(t, intercept.Detect, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	t.Run("HTTP/1.1", func(t *testing.T) {
		conn := w.dial()
		for _, part := range []string{"G", "ET", " /a?b", " HTTP/", "1.1\r", "\nHost: x\r\nBaggage: ", ownBaggage, "\r\nConnection: close\r\n\r\n"} {
			_, _ = io.WriteString(conn, part)
			time.Sleep(2 * time.Millisecond) // so that it comes by itself
		}
		if answer, _ := io.ReadAll(conn); !bytes.HasSuffix(answer, []byte(copyAnswered)) {
			t.Errorf("answered %q", answer)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		client := w.client(true)
		client.Transport.(*http.Transport).Dial = func(_, address string) (net.Conn, error) { //nolint:staticcheck // the test's
			conn, err := net.Dial("tcp", address)
			return &splitting{Conn: conn}, err
		}
		if _, got := w.ask(client, w.request("GET", "/", nil, ownBaggage)); got != copyAnswered {
			t.Errorf("answered by the %s", got)
		}
	})
	if one, two := valueOf(w.proxy.metrics.detected.WithLabelValues("http1")), valueOf(w.proxy.metrics.detected.WithLabelValues("http2")); one != 1 || two != 1 {
		t.Errorf("%v connections of HTTP/1 and %v of HTTP/2 are counted", one, two)
	}
}

// splitting sends its first bytes one by one.
type splitting struct {
	net.Conn
	sent int
}

func (s *splitting) Write(p []byte) (int, error) {
	for i := range p {
		if s.sent >= len(preface) {
			n, err := s.Conn.Write(p[i:])
			return i + n, err
		}
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		s.sent++
		time.Sleep(time.Millisecond)
	}
	return len(p), nil
}

// A connection to the baseline that was made for nothing is not kept. The client speaks once the connection is there: before, the proxy
// may have given up connecting, and the baseline sees nothing at all.
func TestTheBaselinesConnectionOfAnHTTPClientIsGivenUp(t *testing.T) {
	accepted, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	baseline := newTCP(t, func(_ int, conn *net.TCPConn) {
		accepted <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
		ended <- struct{}{}
	})
	w := newWorld(t, intercept.Detect, baseline, newBackend(t, named(copyAnswered)))
	conn := w.dial()
	within(t, accepted, "the baseline has a connection")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nBaggage: "+ownBaggage+"\r\n\r\n")
	answer := make([]byte, 4096)
	if n, err := conn.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "200 OK") {
		t.Fatalf("answered %q, %v", answer[:n], err)
	}
	within(t, ended, "the connection has ended, while the client's goes on")
}

func within(t *testing.T, happens <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(15 * time.Second):
		t.Fatal("not within 15 s: " + what)
	}
}

// The request comes before, while, or after the baseline is connected.
func TestEachConnectionToTheBaselineThatAnHTTPClientDoesNotNeedIsGivenUp(t *testing.T) {
	var accepted, ended atomic.Int32
	baseline := newTCP(t, func(_ int, conn *net.TCPConn) {
		accepted.Add(1)
		_, _ = io.Copy(io.Discard, conn)
		ended.Add(1)
	})
	w := newWorld(t, intercept.Detect, baseline, newBackend(t, named(copyAnswered)))
	const clients = 50
	for i := range clients {
		conn := w.dial()
		time.Sleep(time.Duration(i%5) * 100 * time.Microsecond) // which of the three
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBaggage: "+ownBaggage+"\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !bytes.HasSuffix(answer, []byte(copyAnswered)) {
			t.Fatalf("answered %q, %v", answer, err)
		}
	}
	eventually(t, "all that were made have ended", func() bool { return ended.Load() == accepted.Load() })
	if detected := valueOf(w.proxy.metrics.detected.WithLabelValues("http1")); detected != clients {
		t.Errorf("%v clients of HTTP/1 are counted", detected)
	}
}

// A client says its line in the very moment in which the baseline turns out to be away. The two seconds that a silent client has
// would end its connection then, under a request that takes longer.
func TestABaselineThatIsAwayShortensNoConnectionOfHTTP(t *testing.T) {
	w := newWorld(t, intercept.Detect, closedAddress(t), newBackend(t, named(copyAnswered)))
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := &lateDeadline{Conn: ours, speaks: make(chan struct{}), spoken: make(chan struct{}), lifted: make(chan struct{})}
	go func() {
		defer close(conn.spoken)
		<-conn.speaks
		_, _ = io.WriteString(theirs, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBaggage: "+ownBaggage+"\r\n\r\n")
	}()
	c := newClientConn(conn, w.proxy.ports[0])
	go w.proxy.ports[0].detect(t.Context(), c)
	if answer, err := io.ReadAll(theirs); err != nil || !bytes.HasSuffix(answer, []byte(copyAnswered)) {
		t.Fatalf("answered %q, %v", answer, err)
	}
	if conn.late.Load() {
		t.Error("the deadline of a silent client comes behind that of its request")
	}
}

// lateDeadline is a connection whose client speaks while the deadline of a silent one is being set.
type lateDeadline struct {
	net.Conn
	speaks, spoken, lifted chan struct{}
	speaking, lifting      sync.Once
	late                   atomic.Bool
}

func (c *lateDeadline) SetReadDeadline(at time.Time) error {
	if at.IsZero() {
		c.lifting.Do(func() { close(c.lifted) })
	}
	if left := time.Until(at); left > 0 && left <= silentWithout {
		c.speaking.Do(func() { close(c.speaks) })
		<-c.spoken // all of it is read
		select {
		case <-c.lifted:
			c.late.Store(true)
		case <-time.After(100 * time.Millisecond): // as it should be
		}
	}
	return c.Conn.SetReadDeadline(at)
}

func TestOtherProtocolsPassToTheBaseline(t *testing.T) {
	t.Run("TLS", func(t *testing.T) {
		secure := httptest.NewTLSServer(named(baselineAnswered))
		t.Cleanup(secure.Close)
		w := newWorld(t, intercept.Detect, secure.Listener.Addr().String(), newBackend(t, named(copyAnswered)))
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(transport.CloseIdleConnections)
		req := w.request("GET", "/", nil, ownBaggage)
		req.URL.Scheme = "https"
		if _, got := w.ask(&http.Client{Transport: transport}, req); got != baselineAnswered {
			t.Errorf("answered by the %s", got)
		}
	})
	for name, said := range map[string]string{
		"Redis":          "GET key\r\n",
		"binary":         "\x00\x01\x02\x03",
		"half a request": "GET / ", // and then the end
		"nothing":        "",
	} {
		t.Run(name, func(t *testing.T) {
			baseline := newTCP(t, func(_ int, conn *net.TCPConn) {
				said, _ := io.ReadAll(conn)
				_, _ = conn.Write(append([]byte("got "), said...))
			})
			w := newWorld(t, intercept.Detect, baseline, "")
			conn := w.dial()
			_, _ = io.WriteString(conn, said)
			_ = conn.CloseWrite()
			if got, err := io.ReadAll(conn); err != nil || string(got) != "got "+said {
				t.Errorf("the baseline said %q, %v", got, err)
			}
		})
	}
}

// A port is called http, and its two sides speak something else: TLS, or HTTP behind the line of a load balancer.
func TestWhatIsNotHTTPPassesToTheBaselineAlsoOnAPortOfHTTP(t *testing.T) {
	t.Run("TLS", func(t *testing.T) {
		secure := httptest.NewTLSServer(named(baselineAnswered))
		t.Cleanup(secure.Close)
		w := newWorld(t, intercept.HTTP, secure.Listener.Addr().String(), newBackend(t, named(copyAnswered)))
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(transport.CloseIdleConnections)
		req := w.request("GET", "/", nil, ownBaggage)
		req.URL.Scheme = "https"
		if _, got := w.ask(&http.Client{Transport: transport}, req); got != baselineAnswered {
			t.Errorf("answered by the %s", got)
		}
		if n := valueOf(w.proxy.metrics.detected.WithLabelValues("tcp")); n != 1 {
			t.Errorf("%v connections are counted", n)
		}
	})
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, said := range map[string]string{
		"PROXY protocol 1": "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + request,
		"PROXY protocol 2": proxyV2 + "\x20\x00\x00\x00" + request,
		"binary":           "\x00\x01\x02\x03",
		"one byte":         "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			baseline := newTCP(t, func(_ int, conn *net.TCPConn) {
				said, _ := io.ReadAll(conn)
				_, _ = conn.Write(append([]byte("got "), said...))
			})
			w := newWorld(t, intercept.HTTP, baseline, "")
			conn := w.dial()
			for i := range said { // byte by byte
				_, _ = io.WriteString(conn, said[i:i+1])
			}
			_ = conn.CloseWrite()
			if got, err := io.ReadAll(conn); err != nil || string(got) != "got "+said {
				t.Errorf("the baseline said %q, %v", got, err)
			}
		})
	}
}

// A client of a baseline that is away hears so, as it would without the proxy; a request for a copy is still answered.
func TestABaselineThatIsAwayTakesNothingFromCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, intercept.Detect, closedAddress(t), newBackend(t, named(copyAnswered)))
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage)); got != copyAnswered {
		t.Errorf("answered by the %s", got)
	}
	silent := w.dial()
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a client that is silent got %v", err)
	}
	conn := w.dial()
	_, _ = io.WriteString(conn, "\x00")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a client of another protocol got an answer")
	}
}

func TestMuchPassesBothWays(t *testing.T) {
	baseline := newTCP(t, func(_ int, conn *net.TCPConn) { _, _ = io.Copy(conn, conn); _ = conn.CloseWrite() })
	w := newWorld(t, intercept.Detect, baseline, "")
	conn := w.dial()
	sent := bytes.Repeat([]byte("\x00123456789abcdef"), 1<<16)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("of %d bytes %d came back, %v", len(sent), len(got), err)
	}
}
