// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/runner"
)

const (
	controlToken = "0123456789abcdef0123456789abcdef"
	asRunner     = "DEVSYNC_TEST_RUNNER"
)

// The test's program is a runner as well, so that one can be killed as the kernel kills it.
func TestMain(m *testing.M) {
	if os.Getenv(asRunner) == "" {
		os.Exit(m.Run())
	}
	config, err := runner.ConfigFromEnv(os.Environ())
	if err == nil {
		err = runner.Run(context.Background(), config, slog.New(slog.DiscardHandler))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// world is a directory, a real runner with a workspace in a process of its own, and between them
// the real client and a data plane that can be made to fail.
type world struct {
	t              *testing.T
	dir, workspace string
	state, address string
	env            []string
	process        *exec.Cmd
	running        atomic.Pointer[os.Process] // of process, once it runs
	instance       *client.Instance
	plane          *httptest.Server

	// fault is asked for each request; nil for none.
	fault atomic.Pointer[func(r *http.Request) fault]
	// sent counts the bytes of bodies.
	sent atomic.Int64
}

// fault is what goes wrong with a request.
type fault struct {
	refuse bool  // the connection breaks before the request gets there
	after  int64 // it breaks after so many bytes of the body, if not 0
	mute   bool  // it breaks before the answer
	half   int   // it breaks after so many bytes of the answer, if not 0
	// limit is how large a body the data plane takes, if not 0.
	limit int64
	// kill is how long after the beginning of the request the runner is killed, if not 0.
	kill time.Duration
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	top := t.TempDir()
	w := &world{t: t, dir: filepath.Join(top, "local"), workspace: filepath.Join(top, "workspace"), state: filepath.Join(top, "state"), env: env}
	for _, dir := range []string{w.dir, w.workspace} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	_ = listener.Close()
	w.start()
	t.Cleanup(w.kill)
	w.serve()
	return w
}

// start starts the runner and waits until it answers.
func (w *world) start() {
	w.t.Helper()
	w.process = exec.Command(os.Args[0])
	w.process.Env = append(append(os.Environ(), asRunner+"=1", "SANDBAR_CONTROL_TOKEN="+controlToken,
		"SANDBAR_WORKDIR="+w.workspace, "SANDBAR_CONTROL_ADDR="+w.address), w.env...)
	w.process.Stderr = os.Stderr
	if err := w.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.running.Store(w.process.Process)
	if err := runner.WaitHealthy(w.t.Context(), "http://"+w.address+"/healthz"); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the runner as the kernel would.
func (w *world) kill() {
	if w.process != nil && w.process.ProcessState == nil {
		_ = w.process.Process.Kill()
		_ = w.process.Wait()
	}
}

func (w *world) serve() {
	const base = "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web"
	to, _ := url.Parse("http://" + w.address)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			path := strings.TrimPrefix(p.In.URL.Path, base)
			path = strings.Replace(path, "/log", "/logs", 1)
			p.Out.URL.Path, p.Out.URL.RawPath = path, ""
			p.Out.Header.Set(runner.TokenHeader, controlToken)
		},
		Transport:     &http.Transport{DisableKeepAlives: true},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	w.plane = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var f fault
		if ask := w.fault.Load(); ask != nil {
			f = (*ask)(r)
		}
		r.Body = &countedBody{ReadCloser: r.Body, cut: f.after, sum: &w.sent}
		if f.kill > 0 {
			process := w.running.Load()
			time.AfterFunc(f.kill, func() { _ = process.Kill() })
		}
		if f.refuse {
			panic(http.ErrAbortHandler)
		}
		if f.mute {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		if f.limit > 0 {
			body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, f.limit))
			if err != nil {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusRequestEntityTooLarge)
				_, _ = fmt.Fprintf(rw, `{"kind":"Status","reason":"RequestEntityTooLarge","message":"larger than %d bytes"}`, f.limit)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if f.half > 0 {
			rw = &halfAnswer{ResponseWriter: rw, left: f.half}
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.plane.EnableHTTP2 = true
	w.plane.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.plane.StartTLS()
	w.t.Cleanup(w.plane.Close)
	kcp := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "web", "namespace": "default"},
			"status": map[string]any{"dataPlane": map[string]any{"url": w.plane.URL + base}},
		})
	}))
	w.t.Cleanup(kcp.Close)
	c, err := client.New(&rest.Config{
		Host: kcp.URL + "/clusters/root:me", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(kcp)},
	}, client.DataPlane{URL: w.plane.URL, CABundle: certificateOf(w.plane)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	if w.instance, err = c.Instance(w.t.Context(), client.SandboxRunners, "default", "web"); err != nil {
		w.t.Fatal(err)
	}
}

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// countedBody counts what is read of a body, and breaks it off.
type countedBody struct {
	io.ReadCloser
	n, cut int64
	sum    *atomic.Int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	if c.cut > 0 && c.n >= c.cut {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	c.sum.Add(int64(n))
	return n, err
}

// halfAnswer breaks off an answer.
type halfAnswer struct {
	http.ResponseWriter
	left int
}

func (h *halfAnswer) Write(p []byte) (int, error) {
	if len(p) < h.left {
		h.left -= len(p)
		return h.ResponseWriter.Write(p)
	}
	_, _ = h.ResponseWriter.Write(p[:h.left])
	_ = http.NewResponseController(h.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// options are those of an engine for the world.
func (w *world) options() devsync.Options {
	return devsync.Options{Dir: w.dir, Remote: w.instance.Workspace(), ID: "uid", StateDir: w.state}
}

// sync opens an engine, syncs once and closes it.
func (w *world) sync(change func(*devsync.Options)) (*devsync.Report, error) {
	w.t.Helper()
	opts := w.options()
	if change != nil {
		change(&opts)
	}
	e, err := devsync.Open(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	defer e.Close()
	return e.Sync(w.t.Context())
}

func (w *world) mustSync(change func(*devsync.Options)) *devsync.Report {
	w.t.Helper()
	r, err := w.sync(change)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func twoWay(o *devsync.Options) { o.TwoWay = true }

// files is a tree as text: content, "*" behind what is executable, "-> target" for symlinks.
type files map[string]string

// write makes a tree have files; "-" takes one away, or a directory, and goes first.
func write(t *testing.T, root string, tree files) {
	t.Helper()
	paths := slices.Sorted(maps.Keys(tree))
	slices.SortStableFunc(paths, func(a, b string) int {
		gone := map[bool]int{true: 0, false: 1}
		return gone[tree[a] == "-"] - gone[tree[b] == "-"]
	})
	for _, path := range paths {
		content := tree[path]
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(full)
		var err error
		switch {
		case content == "-":
			err = os.RemoveAll(full)
		case strings.HasPrefix(content, "-> "):
			err = os.Symlink(content[3:], full)
		case strings.HasSuffix(content, "*"):
			err = os.WriteFile(full, []byte(content), 0o755)
		default:
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// save gives files of the workspace new content as editors and formatters that replace files do: at
// once. A watcher sees one change for each, and never a file that is gone or half written.
func (w *world) save(tree files) {
	w.t.Helper()
	beside := w.t.TempDir()
	write(w.t, beside, tree)
	for path := range tree {
		if err := os.Rename(filepath.Join(beside, path), filepath.Join(w.workspace, path)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// read is the reverse of write. The runner's own directory is left out.
func read(t *testing.T, root string) files {
	t.Helper()
	tree := files{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the tree changes while it is read
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if name == ".sandbar" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			tree[name] = "-> " + target
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		text := string(content)
		info, infoErr := d.Info()
		if infoErr == nil && info.Mode()&0o100 != 0 && !strings.HasSuffix(text, "*") {
			text += "*"
		}
		tree[name] = text
		if errors.Is(infoErr, fs.ErrNotExist) {
			infoErr = nil
		}
		return errors.Join(err, infoErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
