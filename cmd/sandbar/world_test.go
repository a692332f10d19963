// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const token = "the-persons-token"

// world is a workspace with the SandboxRunner "web", and a data plane that answers its verbs with
// plane; both are HTTPS servers.
type world struct {
	kubeconfig, trust string
	// plane gets requests with the verb and what follows as path.
	plane http.HandlerFunc
	// url is that of the data plane, and bundle what it gives as its CA bundle.
	url    string
	bundle []byte
	// verbs are those in the status.
	verbs []string
	// kcp answers requests to the workspace that it returns true for; nil answers none.
	kcp func(http.ResponseWriter, *http.Request) bool
	// asked counts the requests to the workspace.
	asked map[string]int
	// conns are those to the runner; cut breaks them.
	mu    sync.Mutex
	conns []net.Conn
}

// serve sets plane, also for a client in a process of its own.
func (w *world) serve(plane http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plane = plane
}

// requests are those to the workspace, with their number.
func (w *world) requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{asked: map[string]int{}}
	const base = "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web"
	plane := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dataplane/ca" {
			if r.Header.Get("Authorization") != "" {
				t.Error("the token was sent before the data plane was verified")
			}
			_, _ = rw.Write(w.bundle)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.URL.Path = strings.TrimPrefix(r.URL.Path, base)
		r.URL.RawPath = ""
		w.mu.Lock()
		plane := w.plane
		w.mu.Unlock()
		plane(rw, r)
	}))
	t.Cleanup(plane.Close)
	w.url, w.bundle = plane.URL, certificateOf(plane)
	workspace := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked[r.Method+" "+r.URL.Path]++
		answer := w.kcp
		w.mu.Unlock()
		if answer != nil && answer(rw, r) {
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
			"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "7b5c0a1e-0000-4000-8000-000000000001"},
			"status":   map[string]any{"phase": "Ready", "dataPlane": map[string]any{"url": plane.URL + base, "verbs": w.verbs}},
		})
	}))
	t.Cleanup(workspace.Close)

	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["w"] = &clientcmdapi.Cluster{Server: workspace.URL + "/clusters/root:me", CertificateAuthorityData: certificateOf(workspace)}
	cfg.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	cfg.CurrentContext = "w"
	w.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, certificateOf(plane), 0o600); err != nil {
		t.Fatal(err)
	}
	w.trust = filepath.Join(t.TempDir(), "trust.json")
	if code, _, stderr := w.run(t, "trust", plane.URL, "--ca-file", bundle); code != 0 {
		t.Fatalf("trust: %s", stderr)
	}
	return w
}

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// lockedBuffer is written by several goroutines of a command.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	// grown is closed by the next write; nil while nobody waits for it.
	grown chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return l.b.Write(p)
}

// look is what is there, and what ends when there is more.
func (l *lockedBuffer) look() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.b.String(), l.grown
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run runs a command line to its end.
func (w *world) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return w.runWith(t, strings.NewReader(""), args...)
}

// runWith is run with an input.
func (w *world) runWith(t *testing.T, input io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	out, errs, ended := w.begin(t.Context(), input, args...)
	code = <-ended
	return code, out.String(), errs.String()
}

// begin runs a command line. What it has written can be read meanwhile.
func (w *world) begin(ctx context.Context, input io.Reader, args ...string) (out, errs *lockedBuffer, ended chan int) {
	out, errs, ended = &lockedBuffer{}, &lockedBuffer{}, make(chan int, 1)
	root := newRootCommand()
	root.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "--trust-file", w.trust}, args...))
	root.SetIn(input)
	root.SetOut(out)
	root.SetErr(errs)
	go func() {
		err := root.ExecuteContext(ctx)
		ended <- report(errs, err, ctx.Err() != nil)
	}()
	return out, errs, ended
}

// await waits until a text is there.
func await(t *testing.T, b *lockedBuffer, text string) {
	t.Helper()
	awaitTimes(t, b, text, 1)
}

// awaitTimes waits until a text is there so many times.
func awaitTimes(t *testing.T, b *lockedBuffer, text string, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		got, grown := b.look()
		if strings.Count(got, text) >= n {
			return
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("%q does not come %d times; there is %q", text, n, got)
		}
	}
}
