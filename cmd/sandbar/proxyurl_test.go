// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// tunnelling is an HTTP proxy that counts the connections to each host.
func tunnelling(t *testing.T) (address string, asked func(host string) int) {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		counts[r.Host]++
		mu.Unlock()
		to, err := net.Dial("tcp", r.Host)
		if r.Method != http.MethodConnect || err != nil {
			http.Error(w, "no CONNECT", http.StatusBadGateway)
			return
		}
		defer to.Close()
		// Taken over before the answer: the server reads ahead, and would keep what the client sends next.
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, buffered); _ = to.Close() }()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, func(host string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[host]
	}
}

// A kubeconfig names the proxy by which its server is reached. The data plane is in the same network.
func TestTheProxyOfTheKubeconfigLeadsToTheDataPlaneToo(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dataplane/ca" {
			_, _ = rw.Write(w.Bundle)
			return
		}
		_, _ = io.WriteString(rw, "{}")
	})
	proxy, asked := tunnelling(t)
	cfg, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Clusters["w"].ProxyURL = proxy
	if err := clientcmd.WriteToFile(*cfg, w.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	plane, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.Run(t, "restart", "web"); code != 0 {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	calls := asked(plane.Host)
	if calls == 0 {
		t.Error("the data plane was called past the proxy")
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, w.Bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.Run(t, "trust", w.URL, "--ca-file", bundle); code != 0 {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	if asked(plane.Host) == calls {
		t.Error("trust asked the data plane past the proxy")
	}
}
