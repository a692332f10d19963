// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// script is a server that answers with pieces, each after a silence.
type script struct {
	header time.Duration
	pieces []time.Duration
}

func (s script) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := silent(req.Context(), s.header); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: &pieces{ctx: req.Context(), left: s.pieces}}, nil
}

func silent(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type pieces struct {
	ctx  context.Context //nolint:containedctx // as that of an answer
	left []time.Duration
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	if err := silent(p.ctx, p.left[0]); err != nil {
		return 0, err
	}
	p.left = p.left[1:]
	return copy(b, "x"), nil
}

func (*pieces) Close() error { return nil }

func TestSilenceIsBoundedAndLengthIsNot(t *testing.T) {
	const second, minute, forever = time.Second, time.Minute, 1000 * time.Hour
	slow := make([]time.Duration, 100)
	for i := range slow {
		slow[i] = 15 * second
	}
	for name, tc := range map[string]struct {
		method, query string
		server        script
		reader        time.Duration // how long it takes to read on
		want          string        // the bytes; empty: ErrSilent
		within        time.Duration
	}{
		"an answer":                              {"GET", "", script{0, []time.Duration{0, 0}}, 0, "xx", second},
		"a list that takes 40 s to be made":      {"GET", "limit=500", script{40 * second, slow[:10]}, 0, "xxxxxxxxxx", 4 * minute},
		"a list that takes 25 minutes to arrive": {"GET", "", script{0, slow}, 0, strings.Repeat("x", 100), 26 * minute},
		"a reader that takes its time":           {"GET", "", script{0, []time.Duration{second, second}}, 10 * minute, "xx", forever},
		"a read that is not answered":            {"GET", "", script{forever, nil}, 0, "", 45 * second},
		"a write that is not answered":           {"PATCH", "", script{forever, nil}, 0, "", 20 * second},
		"a deletion that is not answered":        {"DELETE", "", script{forever, nil}, 0, "", 20 * second},
		"an answer that stops in the middle":     {"GET", "", script{0, []time.Duration{0, forever}}, 0, "", 20 * second},
		"a watch of four quiet minutes":          {"GET", "watch=true", script{0, []time.Duration{4 * minute, 4 * minute}}, 0, "xx", 9 * minute},
		"a watch that is quiet for ever":         {"GET", "watch=1", script{0, []time.Duration{second, forever}}, 0, "", 6 * minute},
		"no watch":                               {"GET", "watch=false", script{forever, nil}, 0, "", 45 * second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &transport{next: tc.server, limits: Default()}
				req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://server.test/api/v1/pods?"+tc.query, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				var got []byte
				resp, err := rt.RoundTrip(req)
				if err == nil {
					defer resp.Body.Close()
					for err == nil {
						var n int
						buffer := make([]byte, 1)
						n, err = resp.Body.Read(buffer)
						got = append(got, buffer[:n]...)
						time.Sleep(tc.reader)
					}
				}
				if tc.want == "" {
					if !errors.Is(err, ErrSilent) {
						t.Errorf("the error is %v, want ErrSilent", err)
					}
				} else if string(got) != tc.want || !errors.Is(err, io.EOF) {
					t.Errorf("read %d bytes and %v, want %d", len(got), err, len(tc.want))
				}
				if took := time.Since(start); took > tc.within {
					t.Errorf("it took %s, want at most %s", took, tc.within)
				}
			})
		})
	}
}

func TestAnEndOfTheCallerStaysTheCallers(t *testing.T) {
	rt := &transport{next: script{header: time.Hour}, limits: Default()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server.test/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrSilent) {
		t.Errorf("the error is %v", err)
	}
}

// hanging is a proxy in front of a real server that stops passing anything on, as a server does that
// is stopped: the connections stay.
type hanging struct {
	net.Listener

	to      string
	mu      sync.Mutex
	hung    *sync.Cond
	stopped bool
}

func newHanging(t *testing.T, to string) *hanging {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hanging{Listener: l, to: to}
	h.hung = sync.NewCond(&h.mu)
	t.Cleanup(func() { h.set(false); l.Close() })
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				down.Close()
				continue
			}
			go h.pass(up, down)
			go h.pass(down, up)
		}
	}()
	return h
}

func (h *hanging) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		h.mu.Lock()
		for h.stopped {
			h.hung.Wait()
		}
		h.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (h *hanging) set(stopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = stopped
	h.hung.Broadcast()
}

// A real client of a server that hangs: its calls end, its watch notices by HTTP/2's pings, and when
// the server goes on, so does the client.
func TestAClientOutlivesAServerThatHangs(t *testing.T) {
	// client-go reads these once per transport: 30 and 15 seconds otherwise.
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if watches(req) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return
		}
		fmt.Fprint(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := newHanging(t, server.Listener.Addr().String())
	config := Config(&rest.Config{
		Host: "https://" + proxy.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1,
	}, Limits{Read: 500 * time.Millisecond, Write: 500 * time.Millisecond, Body: 500 * time.Millisecond, Watch: time.Hour})
	client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	if _, err := client.Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := client.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	proxy.set(true)
	if _, err := client.Get(t.Context(), "x", metav1.GetOptions{}); !errors.Is(err, ErrSilent) {
		t.Errorf("a read: %v, want ErrSilent", err)
	}
	if _, err := client.Create(t.Context(), &corev1.ConfigMap{}, metav1.CreateOptions{}); !errors.Is(err, ErrSilent) {
		t.Errorf("a write: %v, want ErrSilent", err)
	}
	for range watch.ResultChan() { // it ends, or the test does
	}
	proxy.set(false)
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err = client.Get(t.Context(), "x", metav1.GetOptions{}); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Errorf("after the server went on: %v", err)
	}
}
