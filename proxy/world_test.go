// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// TestMain fails if a test leaves a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	service          = "shop"
	ownID, otherID   = "sbx-abcd1234", "sbx-wxyz9876"
	ownBaggage       = "sandbox=" + ownID
	baselineAnswered = "baseline"
	copyAnswered     = "copy"
)

// world is a proxy that runs, with one port.
type world struct {
	t         *testing.T
	proxy     *Proxy
	documents *handed
	address   string
	config    intercept.Config
	stop      context.CancelFunc
	ended     chan error
}

// handed are Documents that a test hands over.
type handed struct{ next, applied chan []byte }

func (d *handed) Watch(ctx context.Context, apply func([]byte)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case document := <-d.next:
			apply(document)
			d.applied <- document
		}
	}
}

// newWorld starts a proxy whose port has a protocol and a baseline, and whose rules lead the own ID to a copy.
func newWorld(t *testing.T, protocol intercept.Protocol, baseline, toCopy string, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, documents: &handed{make(chan []byte), make(chan []byte)}, ended: make(chan error, 1)}
	w.config = intercept.Config{Service: service, Ports: []intercept.Port{{Name: "http", Listen: 8080, Baseline: baseline, Protocol: protocol}}}
	if toCopy != "" {
		w.config.Rules = []intercept.Rule{ruleFor(ownID, toCopy)}
	}
	addresses := make(chan string, 1)
	opts := Options{
		Service: service, Namespace: "demo", AdminAddress: "127.0.0.1:0", Drain: 200 * time.Millisecond, Settle: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		listen: func(int32) (net.Listener, error) {
			l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive, Control: controlClients}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err == nil {
				addresses <- l.Addr().String()
			}
			return l, err
		},
		probe:  func(context.Context, string) error { return nil }, // see reach_test.go
		Lookup: isAt(baseline),
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	if w.proxy, err = New(opts, w.documents); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	go func() { w.ended <- w.proxy.Run(ctx) }()
	t.Cleanup(func() {
		w.stop()
		if err := <-w.ended; err != nil {
			t.Errorf("the proxy ended with %v", err)
		}
		w.ended <- nil
	})
	w.apply()
	w.address = <-addresses
	eventually(t, "the proxy is ready", func() bool {
		return w.proxy.notReady() == "" || opts.probe == nil && w.proxy.bound.Load()
	})
	return w
}

// isAt has each name have the address of host:port.
func isAt(hostPort string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(context.Context, string, string) ([]netip.Addr, error) {
		at, err := netip.ParseAddrPort(hostPort)
		return []netip.Addr{at.Addr()}, err
	}
}

func ruleFor(id, address string) intercept.Rule {
	return intercept.Rule{ID: id, Header: "baggage", Backends: []intercept.Backend{{Address: address, Weight: 1}}}
}

// apply hands the document over as it is now.
func (w *world) apply() {
	w.t.Helper()
	document, err := json.Marshal(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.hand(document)
}

func (w *world) hand(document []byte) {
	w.t.Helper()
	w.documents.next <- document
	<-w.documents.applied
}

// failures is how many requests were counted with a cause.
func (w *world) failures(to, cause string) float64 {
	return valueOf(w.proxy.metrics.errors.WithLabelValues(to, cause))
}

// valueOf is that of a counter or a gauge.
func valueOf(m interface{ Write(*dto.Metric) error }) float64 {
	var out dto.Metric
	_ = m.Write(&out)
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// client returns a client of one protocol, whose connections end with the test.
func (w *world) client(http2 bool) *http.Client {
	protocols := new(http.Protocols)
	if http2 {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 64}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// request makes a request with baggage in as many lines as there are values.
func (w *world) request(method, path string, body io.Reader, baggage ...string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.address+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, line := range baggage {
		req.Header.Add("Baggage", line)
	}
	return req
}

// ask sends a request and reads the answer.
func (w *world) ask(client *http.Client, req *http.Request) (*http.Response, string) {
	w.t.Helper()
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

// dial connects to the proxy.
func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	w.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// say sends bytes, waits for an answer of HTTP/1.1, and returns what comes until the connection ends.
func (w *world) say(request string) string {
	w.t.Helper()
	conn := w.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	var answer strings.Builder
	method, _, _ := strings.Cut(request, " ")
	for in := bufio.NewReader(io.TeeReader(conn, &answer)); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err == nil && res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		if err == nil && res.StatusCode >= 200 {
			_, _ = io.Copy(io.Discard, res.Body)
		}
		_ = conn.CloseWrite() // earlier it would be taken for the client's end
		_, _ = io.Copy(io.Discard, in)
		return answer.String()
	}
}

// newBackend is a server of both protocols, at its address.
func newBackend(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l := listenLocal(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Close(); serving.Wait() })
	return l.Addr().String()
}

// named answers with its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, name)
	})
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newTCP is a server that does with each connection as a test says; n is how many came before.
func newTCP(t *testing.T, serve func(n int, conn *net.TCPConn)) string {
	t.Helper()
	l := listenLocal(t)
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				serve(n, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}

// closedAddress is one where nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l := listenLocal(t)
	defer l.Close()
	return l.Addr().String()
}

// rawBackend answers each request of HTTP/1.1 with the same bytes, and keeps what came, head by head.
type rawBackend struct {
	address string
	mu      sync.Mutex
	heads   []string
}

func newRawBackend(t *testing.T, answer string) *rawBackend {
	t.Helper()
	b := &rawBackend{}
	b.address = newTCP(t, func(_ int, conn *net.TCPConn) {
		for in := bufio.NewReader(conn); ; {
			head, err := readHead(in)
			if err != nil {
				return
			}
			b.mu.Lock()
			b.heads = append(b.heads, head)
			b.mu.Unlock()
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
	return b
}

func (b *rawBackend) last(t *testing.T) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.heads) == 0 {
		t.Fatal("nothing reached the backend")
	}
	return b.heads[len(b.heads)-1]
}

// readHead reads lines until an empty one.
func readHead(in *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) == "" {
			return head.String(), nil
		}
		head.WriteString(line)
	}
}

// eventually polls real sockets.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("timed out before %s", what)
}

// bothProtocols runs a test over HTTP/1.1 and HTTP/2.
func bothProtocols(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Helper()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/%d", map[bool]int{false: 1, true: 2}[http2]), func(t *testing.T) { test(t, http2) })
	}
}

func prefixMatch(path string) sandbarv1alpha1.SandboxRouteMatch {
	return sandbarv1alpha1.SandboxRouteMatch{Path: &sandbarv1alpha1.SandboxRoutePathMatch{Type: sandbarv1alpha1.RoutePathPrefix, Value: path}}
}
