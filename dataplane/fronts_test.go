// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Real fronts before the data plane, as they come from Debian. nginx is installed by make; a test of
// one that is not there is skipped.

// front is a real front on loopback.
type front struct {
	url string
	// bare is the same front with the pod behind it and no data plane, to see that an attack works.
	bare string
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startFront runs a front until the test ends, and waits until it serves.
func startFront(t *testing.T, program string, addresses []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	said := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, said)
		}
	})
	for _, address := range addresses {
		eventually(t, program+" listens", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
}

func lookUpFront(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const internalSecret = "what-only-the-front-may-serve"

// nginx has an internal location, a cache, and kept connections.
func nginxFront(t *testing.T, plane, pod string) front {
	lookUpFront(t, "nginx")
	dir, listen, bare := t.TempDir(), freePort(t), freePort(t)
	writeFile(t, dir, "internal/secret.txt", internalSecret)
	server := func(listen, upstream string) string {
		return fmt.Sprintf(`upstream %[2]s { server %[3]s; keepalive 4; }
server { listen %[1]s; location /internal/ { internal; alias %[4]s/internal/; }
 location / { proxy_pass http://%[2]s; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; proxy_cache one; proxy_cache_key $uri; } }
`, listen, upstream, map[string]string{"plane": plane, "pod": pod}[upstream], dir)
	}
	conf := writeFile(t, dir, "nginx.conf", fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
proxy_cache_path %[1]s/cache keys_zone=one:1m;
%[2]s%[3]s}
`, dir, server(listen, "plane"), server(bare, "pod")))
	startFront(t, "nginx", []string{listen, bare}, "-c", conf, "-e", "stderr", "-p", dir)
	return front{"http://" + listen, "http://" + bare}
}

// haproxy gives the requests of all clients to one connection.
func haproxyFront(t *testing.T, plane, pod string) front {
	lookUpFront(t, "haproxy")
	dir, listen, bare := t.TempDir(), freePort(t), freePort(t)
	conf := writeFile(t, dir, "haproxy.cfg", fmt.Sprintf(`defaults
 mode http
 timeout connect 5s
 timeout client 60s
 timeout server 60s
 http-reuse always
listen plane
 bind %s
 server one %s
listen pod
 bind %s
 server one %s
`, listen, plane, bare, pod))
	startFront(t, "haproxy", []string{listen, bare}, "-db", "-f", conf)
	return front{"http://" + listen, "http://" + bare}
}

// varnish stores what it is let.
func varnishFront(t *testing.T, plane, pod string) front {
	lookUpFront(t, "varnishd")
	start := func(backend string) string {
		dir, listen := t.TempDir(), freePort(t)
		for _, open := range []string{dir, filepath.Dir(dir)} { // it reads as a user of its own
			if err := os.Chmod(open, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		host, port, _ := net.SplitHostPort(backend)
		// An installation where the callers' tokens do not keep answers from being stored.
		vcl := writeFile(t, dir, "v.vcl", fmt.Sprintf(`vcl 4.1;
backend default { .host = "%s"; .port = "%s"; }
sub vcl_recv { if (req.method == "GET" && !req.http.Upgrade) { return (hash); } }
`, host, port))
		startFront(t, "varnishd", []string{listen}, "-F", "-n", dir, "-a", listen, "-f", vcl, "-s", "malloc,16m", "-p", "vcc_allow_inline_c=off")
		return "http://" + listen
	}
	return front{start(plane), start(pod)}
}

// obeyed is a pod whose answers tell a front what to do.
func obeyed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/redirect"):
			w.Header().Set("X-Accel-Redirect", "/internal/secret.txt")
			w.Header().Set("X-Sendfile", "/etc/hostname")
		case strings.HasSuffix(r.URL.Path, "/store"):
			w.Header().Set("X-Accel-Expires", "600")
			w.Header().Set("Surrogate-Control", "max-age=600")
			w.Header().Set("Cache-Control", "public, max-age=600, s-maxage=600")
			w.Header().Set("Expires", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "the app's answer to %d bytes", len(body))
	})
}

// behind sends a request through a front.
func behind(t *testing.T, method, url, token string, body io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, string(text)
}

var realFronts = map[string]func(t *testing.T, plane, pod string) front{"nginx": nginxFront, "haproxy": haproxyFront, "varnish": varnishFront}

// What a pod says to a front that would obey is not said. For each front that does obey, the pod is
// asked without the data plane too: otherwise nothing would be shown.
func TestRealFrontsDoNotObeyPods(t *testing.T) {
	for name, start := range realFronts {
		t.Run(name, func(t *testing.T) {
			pod := httptest.NewServer(obeyed())
			defer pod.Close()
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.Listener.Addr().String() })
			defer http.DefaultClient.CloseIdleConnections()
			w.kcp.grant("stranger")
			f := start(t, strings.TrimPrefix(w.url, "http://"), pod.Listener.Addr().String())
			for _, path := range []string{demo + "proxy/redirect", demo + "log/redirect"} {
				if code, body := behind(t, "GET", f.url+path, adminToken, nil); code != http.StatusOK || !strings.HasPrefix(body, "the app's answer") {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
			if _, body := behind(t, "GET", f.bare+"/redirect", "", nil); name == "nginx" && body != internalSecret {
				t.Errorf("without the data plane the internal location is not served: %s", body)
			}
			for _, path := range []string{demo + "proxy/store", demo + "log/store"} {
				if code, body := behind(t, "GET", f.url+path, adminToken, nil); code != http.StatusOK {
					t.Fatalf("%s: %d %s", path, code, body)
				}
				if code, body := behind(t, "GET", f.url+path, "stranger", nil); code != http.StatusForbidden {
					t.Errorf("%s: who has no right was answered %d %s", path, code, body)
				}
			}
			behind(t, "GET", f.bare+"/store", "", nil)
			pod.CloseClientConnections()
			pod.Listener.Close()
			if code, _ := behind(t, "GET", f.bare+"/store", "", nil); name != "haproxy" && code != http.StatusOK {
				t.Errorf("without the data plane the answer is not stored: %d", code)
			}
		})
	}
}

// The connections that end after chunked bodies are made anew by the fronts, and no request is lost.
func TestRealFrontsCarryChunkedBodies(t *testing.T) {
	for name, start := range realFronts {
		t.Run(name, func(t *testing.T) {
			pod := httptest.NewServer(obeyed())
			defer pod.Close()
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.Listener.Addr().String() })
			defer http.DefaultClient.CloseIdleConnections()
			f := start(t, strings.TrimPrefix(w.url, "http://"), pod.Listener.Addr().String())
			var wg sync.WaitGroup
			for worker := range 4 {
				wg.Go(func() {
					for i := range 25 {
						size := (worker*25 + i) * 997
						chunked := io.MultiReader(strings.NewReader(strings.Repeat("x", size))) // whose length nobody knows
						code, body := behind(t, "POST", f.url+demo+"proxy/up", adminToken, chunked)
						if want := fmt.Sprintf("the app's answer to %d bytes", size); code != http.StatusOK || body != want {
							t.Errorf("%d %q, want %q", code, body, want)
						}
						if code, body := behind(t, "GET", fmt.Sprintf("%s%sproxy/%d-%d", f.url, demo, worker, i), adminToken, nil); code != http.StatusOK {
							t.Errorf("a request after it: %d %s", code, body)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// nginx keeps the beginning of an answer until it has enough of it, unless it is told not to.
func TestNginxPassesAStreamOnAsItComes(t *testing.T) {
	for name, path := range map[string]string{"a control verb's": demo + "log", "an app's events": demo + "proxy/events"} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/events") {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				_, _ = io.WriteString(w, "first\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-goOn:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "second\n")
			}))
			defer pod.Close()
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.Listener.Addr().String() })
			f := nginxFront(t, strings.TrimPrefix(w.url, "http://"), pod.Listener.Addr().String())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, nil)
			req.Header.Set("Authorization", "Bearer "+adminToken)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			defer http.DefaultClient.CloseIdleConnections()
			in := bufio.NewReader(res.Body)
			if line, err := in.ReadString('\n'); line != "first\n" {
				t.Errorf("before the pod goes on: %q, %v", line, err)
			}
			close(goOn)
			if rest, _ := io.ReadAll(in); string(rest) != "second\n" {
				t.Errorf("then: %q", rest)
			}
		})
	}
}
