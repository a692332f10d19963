// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
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
	// other is the data plane of another build (--other).
	other = "other"
)

// rivals are the other proxies, each a process of its own like Sandbar.
type rivals struct {
	rival.Group

	subjects []load.Subject
}

func startRivals(ctx context.Context, s *stage.Stage) (*rivals, error) {
	r := &rivals{subjects: []load.Subject{{Name: thePod, Address: s.Pod}}}
	for _, start := range []func(context.Context, *stage.Stage) (load.Subject, error){
		r.nginx, r.reverseProxy(httputilBare), r.reverseProxy(httputilTuned), throughAPIServer,
	} {
		subject, err := start(ctx, s)
		if err != nil {
			r.Stop()
			return nil, err
		}
		if subject.Address != "" {
			r.subjects = append(r.subjects, subject)
		}
	}
	r.PIDs[sandbar] = s.Replica.PID()
	if s.Other != nil {
		r.PIDs[other] = s.Other.PID()
		r.subjects = append(r.subjects, through(s, other, s.Other))
	}
	r.subjects = append(r.subjects, through(s, sandbar, s.Replica))
	return r, nil
}

func through(s *stage.Stage, name string, replica *local.Replica) load.Subject {
	route := s.Through(replica)
	return load.Subject{
		Name: name, Address: route.Address, Path: route.Prefix,
		Header: "Authorization: Bearer " + s.Tenant.Token + "\r\n",
	}
}

func (r *rivals) nginx(ctx context.Context, s *stage.Stage) (load.Subject, error) {
	address, err := r.Nginx(ctx, nginx, filepath.Join(s.Stack.Dir, "bench-nginx"), s.Pod, `proxy_set_header Connection "";`)
	return load.Subject{Name: nginx, Address: address}, err
}

// reverseProxy is this program again, as a proxy.
func (r *rivals) reverseProxy(name string) func(context.Context, *stage.Stage) (load.Subject, error) {
	return func(ctx context.Context, s *stage.Stage) (load.Subject, error) {
		address, err := rival.FreeAddress(ctx)
		if err != nil {
			return load.Subject{}, err
		}
		return load.Subject{Name: name, Address: address}, r.Own(ctx, name, "-be", name, "-listen", address, "-to", s.Pod)
	}
}

// serveReverseProxy is Go's reverse proxy and nothing else.
func serveReverseProxy(ctx context.Context, name, listen, to string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	if name == httputilTuned {
		proxy.Transport = &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 256, DisableCompression: true}
		proxy.BufferPool = &buffers{}
	}
	server := &http.Server{Addr: listen, Handler: proxy} //nolint:gosec // a rival on loopback, as bare as it comes
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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
