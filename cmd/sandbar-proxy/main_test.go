// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// TestMain is the program itself where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("BE_SANDBAR_PROXY") != "" {
		if file := os.Getenv("MEMORY_MAX"); file != "" {
			memoryMax = file
		}
		if of := os.Getenv("NAME_AND_ADDRESS"); of != "" {
			name, address, _ := strings.Cut(of, "=")
			lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				if host != name {
					return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
				}
				return []netip.Addr{netip.MustParseAddr(address)}, nil
			}
		}
		main()
		return
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), "BE_SANDBAR_PROXY=1")
	return c
}

func TestWrongUsageIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":      {[]string{"--nothing"}, "unknown flag"},
		"outside of a cluster": {[]string{"--service=shop", "--namespace=demo"}, "finding the API server"},
		"without a Service":    {[]string{"--namespace=demo", "--kubeconfig=" + kubeconfig(t, "http://127.0.0.1:1")}, "--service"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := command(t, c.args...).CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("it ended with %v and said %q, want %q", err, out, c.want)
			}
		})
	}
	if out, err := command(t, "--version").Output(); err != nil || string(out) != "dev\n" {
		t.Errorf("the version is %q, %v", out, err)
	}
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// configMap serves one ConfigMap that does not change.
func configMap(t *testing.T, document string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"kind": "ConfigMapList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"},
				"items": []any{map[string]any{
					"metadata": map[string]any{"name": intercept.ConfigMap, "namespace": "demo", "resourceVersion": "1"},
					"data":     map[string]any{intercept.Key("shop"): document},
				}},
			})
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The whole program: it waits for its document, serves, goes on being ready and serving for a while at the first signal, and ends.
func TestTheProgramServesItsDocumentAndDrains(t *testing.T) {
	baseline := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "baseline") }))
	t.Cleanup(baseline.Close)
	port, admin := freePort(t), freePort(t)
	document := fmt.Sprintf(`{"service":"shop","ports":[{"listen":%d,"baseline":%q,"protocol":"HTTP"}]}`, port, baseline.Listener.Addr())
	program := command(t, "--service=shop", "--namespace=demo", "--drain=1s", "--access-log",
		"--admin=127.0.0.1:"+strconv.Itoa(admin), "--kubeconfig="+kubeconfig(t, configMap(t, document)))
	memory := filepath.Join(t.TempDir(), "memory.max")
	if err := os.WriteFile(memory, []byte("200000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Env = append(program.Env, "MEMORY_MAX="+memory, "GOMEMLIMIT=", "NAME_AND_ADDRESS=shop-sandbar-baseline.demo.svc=127.0.0.1")
	var lines strings.Builder
	program.Stdout, program.Stderr = &lines, io.Discard
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	get := func(port int, path string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if ok() {
				return
			}
		}
		_ = program.Process.Kill()
		t.Fatalf("timed out before %s", what)
	}
	until("it is ready", func() bool { code, _ := get(admin, "/readyz"); return code == http.StatusOK })
	if code, body := get(port, "/"); code != http.StatusOK || body != "baseline" {
		t.Errorf("answered %d %q", code, body)
	}
	if code, body := get(admin, "/metrics"); code != http.StatusOK || !strings.Contains(body, `sandbar_proxy_requests_total{code="2xx",to="baseline"} 1`) {
		t.Errorf("the metrics are %d %.2000s", code, body)
	}
	if _, body := get(admin, "/metrics"); !strings.Contains(body, "\ngo_gc_gomemlimit_bytes 1.8e+08\n") {
		t.Error("the memory is not limited to 90 % of what the container may have")
	}
	_ = program.Process.Signal(syscall.SIGTERM)
	until("it drains", func() bool {
		_, body := get(admin, "/metrics")
		return strings.Contains(body, "\nsandbar_proxy_draining 1\n")
	})
	if code, body := get(admin, "/readyz"); code != http.StatusOK {
		t.Errorf("while it drains /readyz is answered %d %q", code, body)
	}
	if code, body := get(port, "/"); code != http.StatusOK || body != "baseline" {
		t.Errorf("while it drains answered %d %q", code, body)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if n := strings.Count(lines.String(), `"to":"baseline"`); n != 2 {
		t.Errorf("the access log has %d lines: %s", n, &lines)
	}
}
