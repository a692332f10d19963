// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProviderOptions says how the provider runs.
type ProviderOptions struct {
	// Name is that of a further provider on the stack: of its workspace below root, on the runtime cluster, and of its
	// folder. Empty, the default, is the stack's own, in the workspace root:sandbar.
	Name string
	// Runtime is the stack whose node is the provider's runtime cluster, under the names that a provider has by itself.
	// Nil is the provider's own stack, which further providers share under their Name.
	Runtime *Stack
	// Templates are the names of the built-in Templates; nil for all.
	Templates []string
	// Verbosity of the provider's log, 0 to 7.
	Verbosity int
	// DrainDelay is how long the provider and its replicas go on accepting requests after they have
	// been told to end; zero means as long as the provider has it by itself.
	DrainDelay time.Duration
	// Log receives what is being done, a line each. Defaults to nothing.
	Log io.Writer
}

// Provider is a provider that runs on a stack as a process of its own.
type Provider struct {
	Stack *Stack
	// URL is the base URL of the data plane.
	URL string
	// CA verifies URL; CAFile is the same as a file.
	CA     *x509.CertPool
	CAFile string
	// Workspace is the provider's workspace.
	Workspace string
	// Dir holds its kubeconfigs and certificates, LogDir its log.
	Dir, LogDir string

	opts    ProviderOptions
	process *process
	metrics [2]string // addresses: the data plane's, with profiles, and the controllers'
	args    []string
	certs   certificates
}

// readyTimeout is how long the provider may take to become ready. It needs seconds; kcp and
// the runtime may be busy starting.
const readyTimeout = 2 * time.Minute

// StartProvider builds the provider, prepares workspace and runtime with init, starts it and
// waits until the data plane is ready. One of the same name that runs already is stopped first.
func (s *Stack) StartProvider(ctx context.Context, opts ProviderOptions) (*Provider, error) {
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	p := &Provider{Stack: s, Workspace: "root:" + cmp.Or(opts.Name, "sandbar"), opts: opts}
	dir := filepath.Join(s.Dir, p.unit())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the provider's folder: %w", err)
	}
	p.Dir, p.LogDir = dir, dir
	if err := p.Stop(); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// prepare builds the binary, makes a certificate, chooses ports and runs init.
func (p *Provider) prepare(ctx context.Context) error {
	certs, err := newCertificates(p.Dir)
	if err != nil {
		return err
	}
	p.certs, p.CAFile = certs, certs.ca
	pem, err := os.ReadFile(certs.ca)
	if err != nil {
		return fmt.Errorf("reading the CA: %w", err)
	}
	p.CA = x509.NewCertPool()
	p.CA.AppendCertsFromPEM(pem)

	ports, err := p.ports(ctx)
	if err != nil {
		return err
	}
	p.URL = "https://localhost:" + ports[0]
	p.metrics = [2]string{"127.0.0.1:" + ports[1], "127.0.0.1:" + ports[2]}
	p.args = []string{
		"run",
		"--kcp-kubeconfig", filepath.Join(p.Dir, "kcp.kubeconfig"),
		"--runtime-kubeconfig", filepath.Join(p.Dir, "runtime-controllers.kubeconfig"),
		"--serve-kcp-kubeconfig", filepath.Join(p.Dir, "kcp-serve.kubeconfig"),
		"--serve-runtime-kubeconfig", filepath.Join(p.Dir, "runtime-serve.kubeconfig"),
		"--listen-address", "127.0.0.1:" + ports[0],
		"--tls-cert-file", certs.cert, "--tls-key-file", certs.key,
		"--dataplane-metrics-address", p.metrics[0],
		"--audit-log", p.AuditLog(),
		"--controllers-metrics-address", p.metrics[1],
		"--controllers-probe-address", "127.0.0.1:" + ports[3],
		"--verbosity", strconv.Itoa(p.opts.Verbosity),
	}
	p.args = append(p.args, p.drainArgs()...)
	if err := p.build(ctx); err != nil {
		return err
	}
	return p.init(ctx)
}

// drainArgs are the arguments that a data plane gets for the end of its life.
func (p *Provider) drainArgs() []string {
	if p.opts.DrainDelay == 0 {
		return nil
	}
	return []string{"--drain-delay", p.opts.DrainDelay.String()}
}

// ports are the provider's ports: data plane, its metrics, the controllers' metrics, their
// probes. They are chosen once per stack and kept, so that a URL stays what it was.
func (p *Provider) ports(ctx context.Context) ([]string, error) {
	file := filepath.Join(p.Dir, "ports")
	if data, err := os.ReadFile(file); err == nil {
		if kept := strings.Fields(string(data)); len(kept) == 4 {
			return kept, nil
		}
	}
	var ports []string
	for range 4 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, os.WriteFile(file, []byte(strings.Join(ports, " ")+"\n"), 0o600)
}

// unit names the provider's process among those of the stack, and its folder.
func (p *Provider) unit() string {
	if p.opts.Name == "" {
		return "provider"
	}
	return "provider-" + p.opts.Name
}

// binary is the program that all providers of the stack run; the stack's own builds it.
func (p *Provider) binary() string { return filepath.Join(p.Stack.Dir, "provider", "sandbar-provider") }

func (p *Provider) build(ctx context.Context) error {
	if _, err := os.Stat(p.binary()); err == nil && p.opts.Name != "" {
		return nil
	}
	fmt.Fprintln(p.opts.Log, "building sandbar-provider")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", p.binary(), "./cmd/sandbar-provider")
	cmd.Dir = p.Stack.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building sandbar-provider: %w\n%s", err, out)
	}
	return nil
}

// Runtime is the stack whose node is the provider's runtime cluster.
func (p *Provider) Runtime() *Stack { return cmp.Or(p.opts.Runtime, p.Stack) }

func (p *Provider) runtimeName() string {
	if p.opts.Runtime != nil {
		return ""
	}
	return p.opts.Name
}

// InitArgs are the arguments of sandbar-provider init for this stack.
func (p *Provider) InitArgs() []string {
	args := []string{
		"init",
		"--runtime-name", p.runtimeName(),
		"--kcp-kubeconfig", p.Stack.Kubeconfig("kcp-admin"),
		"--runtime-kubeconfig", p.Runtime().Kubeconfig("runtime-admin"),
		"--workspace", p.Workspace,
		"--dataplane-url", p.URL, "--dataplane-ca-file", p.CAFile,
		"--preview-domain", strings.Replace(strings.TrimPrefix(p.URL, "https://"), "localhost", previewHost, 1),
		"--image", "runner=localhost/sandbar/runner:dev",
		"--image", "proxy=localhost/sandbar/proxy:dev",
		"--image", "node=localhost/sandbar/toolchain-node:dev",
		"--image", "python=localhost/sandbar/toolchain-python:dev",
		"--image", "go=localhost/sandbar/toolchain-go:dev",
		"--image", "redis=localhost/sandbar/redis:dev",
		"--image", "postgres=localhost/sandbar/postgres:dev",
		"--image", "webAppWeb=localhost/sandbar/web-app-web:dev",
		"--image", "webAppAPI=localhost/sandbar/web-app-api:dev",
		"--provider-cidr", "10.99.0.0/16",
		"--out", p.Dir,
	}
	if p.opts.Templates != nil {
		args = append(args, "--templates", strings.Join(p.opts.Templates, ","))
	}
	return args
}

// Doctor runs sandbar-provider doctor on the provider and returns what it prints. The error is an *exec.ExitError if a
// check failed.
func (p *Provider) Doctor(ctx context.Context, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, p.binary(), append([]string{
		"doctor",
		"--kcp-kubeconfig", p.Stack.Kubeconfig("kcp-admin"),
		"--runtime-kubeconfig", p.Runtime().Kubeconfig("runtime-admin"),
		"--workspace", p.Workspace, "--runtime-name", p.runtimeName(), "--identities", p.Dir,
	}, args...)...).Output()
}

// Grant runs sandbar-provider baseline grant and returns what it prints.
func (p *Provider) Grant(ctx context.Context, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, p.binary(), append([]string{
		"baseline", "grant", "--kcp-kubeconfig", p.Stack.Kubeconfig("kcp-admin"), "--runtime-kubeconfig", p.Runtime().Kubeconfig("runtime-admin"),
		"--workspace", p.Workspace, "--runtime-name", p.runtimeName(),
	}, args...)...).CombinedOutput()
}

func (p *Provider) init(ctx context.Context) error {
	fmt.Fprintln(p.opts.Log, "sandbar-provider init")
	cmd := exec.CommandContext(ctx, p.binary(), p.InitArgs()...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("sandbar-provider init: %w\n%s", err, out.String())
	}
	return nil
}

// Start starts the provider's process and waits until the data plane says that it is ready.
func (p *Provider) Start(ctx context.Context) error {
	fmt.Fprintln(p.opts.Log, "starting sandbar-provider run")
	started, err := p.start(ctx, p.unit(), p.URL, p.binary(), p.args)
	p.process = started
	return err
}

// start starts a binary, recorded with the stack under a name, and waits until what it serves at
// url is ready.
func (p *Provider) start(ctx context.Context, name, url, binary string, args []string) (*process, error) {
	logFile := filepath.Join(p.LogDir, name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	// Not bound to ctx: the provider goes on when a demo that started it ends.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	started := &process{cmd: cmd, exited: make(chan struct{}), record: p.Stack.identityFile(name)}
	go func() {
		_ = cmd.Wait()
		close(started.exited)
	}()
	if err := writeIdentity(p.Stack.identityFile(name), cmd.Process.Pid); err != nil {
		return started, err
	}
	return started, p.waitReady(ctx, started, url, logFile)
}

// LogFile is the provider's log.
func (p *Provider) LogFile() string { return filepath.Join(p.LogDir, p.unit()+".log") }

// AuditLog is the provider's audit log.
func (p *Provider) AuditLog() string { return filepath.Join(p.LogDir, "audit.log") }

// TLS returns a client configuration that trusts the data plane.
func (p *Provider) TLS() *tls.Config {
	return &tls.Config{RootCAs: p.CA, MinVersion: tls.VersionTLS12}
}

func (p *Provider) waitReady(ctx context.Context, started *process, url, logFile string) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: p.TLS(), DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-started.exited:
			return fmt.Errorf("the provider ended; the end of its log:\n%s", tail(logFile))
		case <-ctx.Done():
			return fmt.Errorf("the provider is not ready: %w; the end of its log:\n%s", ctx.Err(), tail(logFile))
		case <-ticker.C:
		}
	}
}

// ServingCertificate is the data plane's own certificate, which must count for nothing as a client's.
func (p *Provider) ServingCertificate() tls.Certificate {
	certificate, err := tls.LoadX509KeyPair(p.certs.cert, p.certs.key)
	if err != nil {
		panic(fmt.Sprintf("the data plane's certificate: %v", err))
	}
	return certificate
}

// Kill ends the provider at once (SIGKILL) and returns when it is gone.
func (p *Provider) Kill() error { return p.process.signal(syscall.SIGKILL) }

// Terminate asks the provider to end (SIGTERM) and returns when it is gone.
func (p *Provider) Terminate() error { return p.process.signal(syscall.SIGTERM) }

// PID is the process id of the provider.
func (p *Provider) PID() int { return p.process.cmd.Process.Pid }

// Metrics returns all metrics of the process as text.
func (p *Provider) Metrics(ctx context.Context) (string, error) {
	var all strings.Builder
	for _, address := range p.metrics {
		if err := private(ctx, &all, address+"/metrics"); err != nil {
			return "", fmt.Errorf("reading the metrics: %w", err)
		}
	}
	return all.String(), nil
}

// Live is what lives in the memory of the process after a collection, in bytes: heap and stacks.
func (p *Provider) Live(ctx context.Context) (float64, error) { return live(ctx, p.metrics[0]) }

func live(ctx context.Context, address string) (float64, error) {
	var profile strings.Builder
	if err := private(ctx, &profile, address+"/debug/pprof/heap?gc=1&debug=1"); err != nil {
		return 0, fmt.Errorf("reading the heap's profile: %w", err)
	}
	sum := 0.0
	for _, field := range []string{"# HeapAlloc = ", "# Stack = "} {
		_, rest, _ := strings.Cut(profile.String(), field)
		var bytes float64
		if _, err := fmt.Sscan(rest, &bytes); err != nil {
			return 0, fmt.Errorf("the heap's profile has no line %q: %w", field, err)
		}
		sum += bytes
	}
	return sum, nil
}

// private asks one of the process's private addresses.
func private(ctx context.Context, to io.Writer, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	_, err = io.Copy(to, io.LimitReader(resp.Body, 16<<20))
	return err
}

// tail returns the end of a file, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return string(data)
}
