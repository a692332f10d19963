// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

// Names of the subjects.
const (
	thePod       = "pod"
	sandbar      = "sandbar"
	httputilBare = "httputil"
	// httputilTuned keeps as many connections as there are callers and lends buffers.
	httputilTuned = "httputil-tuned"
	nginx         = "nginx"
	apiServer     = "apiserver"
)

// rivals are the other proxies, each a process of its own like Sandbar.
type rivals struct {
	subjects []load.Subject
	commands []*exec.Cmd
	pids     map[string]int // by subject, where the process is known
}

func startRivals(ctx context.Context, s *stage.Stage) (*rivals, error) {
	r := &rivals{pids: map[string]int{}, subjects: []load.Subject{{Name: thePod, Address: s.Pod}}}
	for _, start := range []func(context.Context, *stage.Stage) (load.Subject, error){
		r.nginx, r.reverseProxy(httputilBare), r.reverseProxy(httputilTuned), throughAPIServer,
	} {
		subject, err := start(ctx, s)
		if err != nil {
			r.stop()
			return nil, err
		}
		if subject.Name != "" {
			r.subjects = append(r.subjects, subject)
		}
	}
	r.subjects = append(r.subjects, load.Subject{
		Name: sandbar, Address: strings.TrimPrefix(s.Replica.URL, "http://"), Path: s.Proxy,
		Header: "Authorization: Bearer " + s.Tenant.Token + "\r\n",
	})
	return r, nil
}

func (r *rivals) stop() {
	for _, c := range r.commands {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}
}

func (r *rivals) start(name string, cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	r.commands = append(r.commands, cmd)
	r.pids[name] = cmd.Process.Pid
	return nil
}

// nginx is Debian's (nginx-light), as it logs by default, with connections to the pod kept.
func (r *rivals) nginx(ctx context.Context, s *stage.Stage) (load.Subject, error) {
	binary, err := exec.LookPath("nginx")
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintln(os.Stderr, "nginx is not installed (nginx-light): it is left out")
		return load.Subject{}, nil
	}
	if err != nil {
		return load.Subject{}, fmt.Errorf("finding nginx: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return load.Subject{}, err
	}
	dir := filepath.Join(s.Stack.Dir, "bench-nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return load.Subject{}, fmt.Errorf("making nginx's folder: %w", err)
	}
	config := fmt.Sprintf(`
daemon off; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
	access_log %[1]s/access.log;
	keepalive_requests 100000000;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	upstream pod { server %[2]s; keepalive 128; keepalive_requests 100000000; }
	server {
		listen %[3]s;
		location / { proxy_pass http://pod; proxy_http_version 1.1; proxy_set_header Connection ""; }
	}
}
`, dir, s.Pod, address)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return load.Subject{}, fmt.Errorf("writing nginx's configuration: %w", err)
	}
	return load.Subject{Name: nginx, Address: address}, r.start(nginx, exec.CommandContext(ctx, binary, "-c", file, "-e", filepath.Join(dir, "error.log")))
}

// reverseProxy is this program again, as a proxy.
func (r *rivals) reverseProxy(name string) func(context.Context, *stage.Stage) (load.Subject, error) {
	return func(ctx context.Context, s *stage.Stage) (load.Subject, error) {
		address, err := freeAddress(ctx)
		if err != nil {
			return load.Subject{}, err
		}
		own, err := os.Executable()
		if err != nil {
			return load.Subject{}, fmt.Errorf("finding this program: %w", err)
		}
		return load.Subject{Name: name, Address: address}, r.start(name, exec.CommandContext(ctx, own, "-be", name, "-listen", address, "-to", s.Pod))
	}
}

// serveReverseProxy is Go's reverse proxy and nothing else.
func serveReverseProxy(name, listen, to string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	if name == httputilTuned {
		proxy.Transport = &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 256, DisableCompression: true}
		proxy.BufferPool = &buffers{}
	}
	return (&http.Server{Addr: listen, Handler: proxy}).ListenAndServe() //nolint:gosec // a rival on loopback, as bare as it comes
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if got, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return got[:]
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }

// throughAPIServer is the runtime API server's service proxy, asked straight with an
// administrator's certificate. It is the one subject that speaks TLS to its caller.
func throughAPIServer(_ context.Context, s *stage.Stage) (load.Subject, error) {
	config := s.Stack.Runtime()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return load.Subject{}, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	u, err := url.Parse(config.Host)
	if err != nil {
		return load.Subject{}, fmt.Errorf("reading the API server's address: %w", err)
	}
	if tlsConfig == nil {
		return load.Subject{}, errors.New("the runtime API server has no TLS")
	}
	tlsConfig = tlsConfig.Clone()
	tlsConfig.NextProtos, tlsConfig.ServerName = []string{"http/1.1"}, u.Hostname()
	tlsConfig.MinVersion = tls.VersionTLS12
	return load.Subject{
		Name: apiServer, Address: u.Host, TLS: tlsConfig,
		Path: "/api/v1/namespaces/" + s.Namespace + "/services/preview:preview/proxy",
	}, nil
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
