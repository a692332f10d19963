// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/runner"
)

const (
	asRunner     = "SANDBAR_TEST_AS_RUNNER"
	asSandbar    = "SANDBAR_TEST_AS_SANDBAR"
	controlToken = "0123456789abcdef0123456789abcdef"
)

// The test's program is a runner as well, and the program itself.
func TestMain(m *testing.M) {
	if os.Getenv(asSandbar) != "" {
		main()
	}
	if os.Getenv(asRunner) == "" {
		quietLibraries() // once, as main does
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	config, err := runner.ConfigFromEnv(os.Environ())
	if err == nil {
		err = runner.Run(ctx, config, slog.New(slog.DiscardHandler))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withRunner puts a real runner behind the data plane, and returns its workspace.
func (w *world) withRunner(t *testing.T, command string) (workspace string) {
	t.Helper()
	workspace = t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), asRunner+"=1", "SANDBAR_CONTROL_TOKEN="+controlToken,
		"SANDBAR_WORKDIR="+workspace, "SANDBAR_CONTROL_ADDR="+address, "SANDBAR_START_COMMAND="+command)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Asked, and not killed: its app would go on without it.
		_ = process.Process.Signal(syscall.SIGTERM)
		stuck := time.AfterFunc(20*time.Second, func() { _ = process.Process.Kill() })
		defer stuck.Stop()
		if err := process.Wait(); err != nil {
			t.Errorf("the runner's end: %v", err)
		}
	})
	if err := runner.WaitHealthy(t.Context(), "http://"+address+"/healthz"); err != nil {
		t.Fatal(err)
	}
	to, _ := url.Parse("http://" + address)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.URL.Path = strings.Replace(p.In.URL.Path, "/log", "/logs", 1)
		p.Out.Header.Set(runner.TokenHeader, controlToken)
	}, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.conns = append(w.conns, conn)
		}
		return conn, err
	}}}
	w.serve(proxy.ServeHTTP)
	return workspace
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contentOf(dir, name string) string {
	content, _ := os.ReadFile(filepath.Join(dir, name))
	return string(content)
}

func TestSyncListsConflictsAndPreferDecidesThem(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	workspace := w.withRunner(t, "")
	put(t, dir, "a", "1")
	put(t, dir, "b", "1")
	if code, stdout, stderr := w.run(t, "sync", "web", dir); code != 0 || stdout != "" || !strings.Contains(stderr, "a applied") || contentOf(workspace, "a") != "1" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, name := range []string{"a", "b"} {
		put(t, dir, name, "here")
		put(t, workspace, name, "there")
	}
	code, stdout, stderr := w.run(t, "sync", "web", dir)
	want := "conflict\ta\tchanged here and in the sandbox\nconflict\tb\tchanged here and in the sandbox\n"
	if code != exitFailure || stdout != want || !strings.Contains(stderr, "2 conflicts; sandbar sync web "+dir+" --prefer local|remote") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = w.run(t, "sync", "web", dir, "-o", "json", "--prefer", "local", "a")
	var report devsync.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitFailure || len(report.Conflicts) != 1 || report.Conflicts[0].Path != "b" || report.Sent != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if code, _, stderr := w.run(t, "sync", "web", dir, "--prefer", "remote"); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	got := []string{contentOf(dir, "a"), contentOf(workspace, "a"), contentOf(dir, "b"), contentOf(workspace, "b")}
	if strings.Join(got, " ") != "here here there there" {
		t.Errorf("the files are %v", got)
	}
}

func TestDevCarriesEditsAndShowsTheLogUntilInterrupted(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	workspace := w.withRunner(t, `while :; do cat a 2>/dev/null && rm a; sleep 0.01; done`)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.begin(ctx, strings.NewReader(""), "dev", "web", dir)
	await(t, errs, "in sync")
	put(t, dir, "a", "hello from the editor\n")
	await(t, errs, "a applied")
	await(t, out, "hello from the editor\n")
	w.cut()
	await(t, errs, "the connection to the log is lost")
	put(t, dir, "a", "hello again\n")
	await(t, out, "hello again\n")
	for late := time.Now().Add(20 * time.Second); contentOf(workspace, "a") != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the app did not take the file")
		}
	}
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("dev ended with %d: %s", code, errs)
	}
}

// Lines that are printed while the log is not being read are shown to nobody.
func TestDevReadsTheLogBeforeItSendsFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.withRunner(t, `test -e a && echo "crashed at once"; exec sleep 1000`)
	plane := w.plane
	var refused atomic.Int32
	w.serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/log" && refused.Add(1) <= 2 {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		plane(rw, r)
	})
	put(t, dir, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.begin(ctx, strings.NewReader(""), "dev", "web", dir)
	await(t, errs, "in sync")
	await(t, out, "crashed at once\n")
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("dev ended with %d: %s", code, errs)
	}
}
