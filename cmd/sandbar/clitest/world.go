// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package clitest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
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
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/runner"
)

// Token is the person's, which the data plane wants.
const Token = "the-persons-token"

// World is a workspace with the SandboxRunner "web", and a data plane that answers its verbs with
// plane; both are HTTPS servers.
type World struct {
	// NewRoot returns the program whose command lines are run.
	NewRoot func() *cobra.Command
	// Kubeconfig and Trust are the files of the flags --kubeconfig and --trust-file.
	Kubeconfig, Trust string
	// Plane gets requests with the verb and what follows as path.
	Plane http.HandlerFunc
	// URL is that of the data plane, and Bundle what it gives as its CA bundle.
	URL    string
	Bundle []byte
	// Verbs are those in the status.
	Verbs []string
	// KCP answers requests to the workspace that it returns true for; nil answers none.
	KCP func(http.ResponseWriter, *http.Request) bool
	// asked counts the requests to the workspace.
	asked map[string]int
	// Mu guards the fields that a request reads while a test changes them.
	Mu sync.Mutex
	// conns are those to the runner; Cut breaks them.
	conns []net.Conn
}

// Serve sets plane, also for a client in a process of its own.
func (w *World) Serve(plane http.HandlerFunc) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Plane = plane
}

// Requests are those to the workspace, with their number.
func (w *World) Requests() map[string]int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return maps.Clone(w.asked)
}

// Cut breaks the connections to the runner.
func (w *World) Cut() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// addressOf is how the address of an instance begins at a data plane.
var addressOf = regexp.MustCompile(`^/dataplane/clusters/c1/namespaces/default/[^/]+/[^/]+`)

// AddressOf is the address of an instance in the namespace default at the world's data plane.
func (w *World) AddressOf(resource, name string) string {
	return w.URL + "/dataplane/clusters/c1/namespaces/default/" + resource + "/" + name
}

// Program returns the constructor of a program that has one group of commands.
func Program(group string, commands func(*cli.Target) []*cobra.Command) func() *cobra.Command {
	return func() *cobra.Command {
		return cli.NewRoot("dev", cli.Group{ID: group, Title: group + ":", Commands: commands})
	}
}

// New returns a world whose command lines are those of a program.
func New(t *testing.T, newRoot func() *cobra.Command) *World {
	t.Helper()
	w := &World{NewRoot: newRoot, asked: map[string]int{}}
	plane := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dataplane/ca" {
			if r.Header.Get("Authorization") != "" {
				t.Error("the token was sent before the data plane was verified")
			}
			_, _ = rw.Write(w.Bundle)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+Token {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.URL.Path = strings.TrimPrefix(r.URL.Path, addressOf.FindString(r.URL.Path))
		r.URL.RawPath = ""
		w.Mu.Lock()
		plane := w.Plane
		w.Mu.Unlock()
		plane(rw, r)
	}))
	t.Cleanup(plane.Close)
	w.URL, w.Bundle = plane.URL, CertificateOf(plane)
	workspace := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.Mu.Lock()
		w.asked[r.Method+" "+r.URL.Path]++
		answer := w.KCP
		w.Mu.Unlock()
		if answer != nil && answer(rw, r) {
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
			"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "7b5c0a1e-0000-4000-8000-000000000001"},
			"status":   map[string]any{"phase": "Ready", "dataPlane": map[string]any{"url": w.AddressOf(path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path)), "verbs": w.Verbs}},
		})
	}))
	t.Cleanup(workspace.Close)

	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["w"] = &clientcmdapi.Cluster{Server: workspace.URL + "/clusters/root:me", CertificateAuthorityData: CertificateOf(workspace)}
	cfg.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: Token}
	cfg.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	cfg.CurrentContext = "w"
	w.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, w.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	w.Trust = filepath.Join(t.TempDir(), "trust.json")
	if err := (session.TrustStore{Path: w.Trust}).Add(client.DataPlane{URL: plane.URL, CABundle: CertificateOf(plane)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// CertificateOf is the certificate of a server, in PEM.
func CertificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// LockedBuffer is written by several goroutines of a command.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	// grown is closed by the next write; nil while nobody waits for it.
	grown chan struct{}
}

// Write implements io.Writer.
func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return l.b.Write(p)
}

// Look is what is there, and what ends when there is more.
func (l *LockedBuffer) Look() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.b.String(), l.grown
}

// String is what was written so far.
func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Run runs a command line to its end.
func (w *World) Run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return w.RunWith(t, strings.NewReader(""), args...)
}

// RunWith is run with an input.
func (w *World) RunWith(t *testing.T, input io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	out, errs, ended := w.Begin(t.Context(), input, args...)
	code = <-ended
	return code, out.String(), errs.String()
}

// Begin runs a command line. What it has written can be read meanwhile.
func (w *World) Begin(ctx context.Context, input io.Reader, args ...string) (out, errs *LockedBuffer, ended chan int) {
	out, errs, ended = &LockedBuffer{}, &LockedBuffer{}, make(chan int, 1)
	root := w.NewRoot()
	root.SetArgs(append([]string{"--kubeconfig", w.Kubeconfig, "--trust-file", w.Trust}, args...))
	root.SetIn(input)
	root.SetOut(out)
	root.SetErr(errs)
	go func() {
		err := root.ExecuteContext(ctx)
		ended <- cli.Report(errs, err, ctx.Err() != nil)
	}()
	return out, errs, ended
}

// Await waits until a text is there.
func Await(t *testing.T, b *LockedBuffer, text string) {
	t.Helper()
	AwaitTimes(t, b, text, 1)
}

// AwaitTimes waits until a text is there so many times.
func AwaitTimes(t *testing.T, b *LockedBuffer, text string, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		got, grown := b.Look()
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

// AsSandbar is the variable that makes a test's own program be sandbar.
const AsSandbar = "SANDBAR_TEST_AS_SANDBAR"

const (
	asRunner     = "SANDBAR_TEST_AS_RUNNER"
	controlToken = "0123456789abcdef0123456789abcdef"
)

// Main is the TestMain of a package whose tests run command lines. The test's own program is sandbar, or a sandbox's runner,
// for a process that the tests start.
func Main(m *testing.M, newRoot func() *cobra.Command) {
	if os.Getenv(AsSandbar) != "" {
		cli.Main(newRoot)
	}
	if os.Getenv(asRunner) == "" {
		cli.QuietLibraries() // once, as main does
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

// WithRunner puts a real runner behind the data plane, and returns its workspace.
func (w *World) WithRunner(t *testing.T, command string) (workspace string) {
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
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.conns = append(w.conns, conn)
		}
		return conn, err
	}}}
	w.Serve(proxy.ServeHTTP)
	return workspace
}

// Put writes a file below a directory.
func Put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ContentOf is the content of a file, empty if it is not there.
func ContentOf(dir, name string) string {
	content, _ := os.ReadFile(filepath.Join(dir, name))
	return string(content)
}

// Untimed is a transcript without the times of its lines.
func Untimed(text string) string {
	return regexp.MustCompile(`(?m)^\[\d\d:\d\d:\d\d\] `).ReplaceAllString(text, "")
}

// CompareGolden compares a text with a file of testdata; see golden.Check.
func CompareGolden(t *testing.T, file, got string) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", file), []byte(got))
}

// Refusing answers every verb as the data plane does.
func Refusing(code int, reason, message string, causes ...metav1.StatusCause) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(code)
		_ = json.NewEncoder(rw).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason: metav1.StatusReason(reason), Message: message, Details: &metav1.StatusDetails{Causes: causes},
		})
	}
}

// WorkspaceHost is the address of a world's workspace.
var WorkspaceHost = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)

// HashOf is the SHA-256 of a CA bundle, as a binding names it.
func HashOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:])
}

// WithSchema gives the workspace's Sandboxes the schema of package object's tests.
func WithSchema(t *testing.T, s *objecttest.Server) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module(t), "client/object/testdata/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.Describe(map[string]string{"sandbar.dev/v1alpha1": string(text)})
}

// module is the directory of the module, which the packages of tests are below.
func module(t *testing.T) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if at, err := filepath.Abs(dir); err != nil || at == "/" {
			t.Fatalf("no directory above has a go.mod: %v", err)
		}
	}
}

// TreeText is a tree as text: content, "-> target" for symlinks, "+" before what is executable,
// and a name that ends in "/" for a directory.
func TreeText(t *testing.T, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, full)
		if err != nil || name == "." {
			return err
		}
		switch {
		case name == ".sandbar":
			return fs.SkipDir
		case d.IsDir():
			tree[name+"/"] = ""
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(full)
			tree[name] = "-> " + target
			return err
		default:
			content, err := os.ReadFile(full)
			tree[name] = string(content)
			if info, infoErr := d.Info(); infoErr == nil && info.Mode()&0o100 != 0 {
				tree[name] = "+" + tree[name]
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Plant makes the files of a tree as TreeText writes them.
func Plant(t *testing.T, root string, tree map[string]string) {
	t.Helper()
	for name, content := range tree {
		full := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		target, isLink := strings.CutPrefix(content, "-> ")
		content, executable := strings.CutPrefix(content, "+")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		case isLink:
			err = os.Symlink(target, full)
		case executable:
			err = os.WriteFile(full, []byte(content), 0o755)
		default:
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
