// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
	"github.com/sandbar-dev/sandbar/pkg/deadline"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Server serves the data plane.
type Server struct {
	opts  Options
	log   *slog.Logger
	cache *locate.RuntimeCache
	kinds *locate.Kinds
	// settings is what the InfrastructureProvider says.
	settings  *settings
	handler   *handler
	metrics   *record.Metrics
	bound     *tenant.VirtualWorkspace
	heartbeat *heartbeat
	// registration is this replica's own Lease.
	registration *registration
	// drain begins the shut-down; handler.draining is its context.
	drain context.CancelFunc
	// listening, if set, is told the addresses; for tests that listen on port 0.
	listening func(verbs, metrics net.Addr)
}

// New makes a Server. kcpConfig leads to the provider workspace with the provider's identity,
// which serves to watch Templates, the InfrastructureProvider and bindings, and to ask about callers
// without a token; of it, reviews of callers with one use only the address.
// runtimeConfig leads to the runtime cluster. Nothing is sent until Run.
func New(opts Options, kcpConfig, runtimeConfig *rest.Config) (*Server, error) {
	opts.SetDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("checking the options: %w", err)
	}
	// Not of what goes to pods through the API server: how long an app is silent is its own affair.
	patient := deadline.Config(unthrottled(runtimeConfig), deadline.Default())
	kcpConfig = deadline.Config(kcpConfig, deadline.Default())
	provider, err := dynamic.NewForConfig(unthrottled(kcpConfig))
	if err != nil {
		return nil, fmt.Errorf("making a client for the provider workspace: %w", err)
	}
	opts.clock = &inuse.Clock{}
	typed, err := kubernetes.NewForConfig(opts.clock.Watch(inuse.Runtime, patient, "/apis/coordination.k8s.io/"))
	if err != nil {
		return nil, fmt.Errorf("making a client for the runtime cluster: %w", err)
	}
	dynamicRuntime, err := dynamic.NewForConfig(patient)
	if err != nil {
		return nil, fmt.Errorf("making a client for the runtime cluster: %w", err)
	}
	bound, err := tenant.NewVirtualWorkspace(kcpConfig, opts.ExportName, opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("making the client for the virtual workspace: %w", err)
	}
	asCaller, err := tenant.New(kcpConfig, bound)
	if err != nil {
		return nil, fmt.Errorf("making the client for callers: %w", err)
	}
	return assemble(opts, provider, typed, dynamicRuntime, asCaller, bound, unthrottled(runtimeConfig))
}

func assemble(opts Options, provider dynamic.Interface, typed kubernetes.Interface, dynamicRuntime dynamic.Interface,
	asCaller *tenant.Client, bound *tenant.VirtualWorkspace, toPods *rest.Config,
) (*Server, error) {
	m := record.NewMetrics(opts.Version)
	countFromTheStart(m)
	for _, collector := range opts.Collectors {
		if err := m.Registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering a metric of the process: %w", err)
		}
	}
	objects, err := locate.NewRuntimeCache(typed)
	if err != nil {
		return nil, err
	}
	kinds, err := locate.NewKinds(provider, dynamicRuntime, opts.Names, opts.Logger)
	if err != nil {
		return nil, err
	}
	offered, err := newBaselines(provider)
	if err != nil {
		return nil, err
	}
	settings, err := newSettings(provider, opts.Limits, m, opts.Logger)
	if err != nil {
		return nil, err
	}
	callers, err := access.NewCallerLimiter(settings.limits)
	if err != nil {
		return nil, err
	}
	authorizer, err := access.New(asCaller, bound, access.Options{
		Mode: opts.AuthorizationMode, CacheSize: opts.AuthorizationCacheSize, Concurrency: opts.AuthorizationConcurrency,
		IdentityWorkspace: opts.IdentityWorkspace, WorkspaceAuthentication: opts.WorkspaceAuthentication, Logger: opts.Logger,
	}, callers, m.Access)
	if err != nil {
		return nil, err
	}
	limits, err := limit.NewLimiter(settings.limits)
	if err != nil {
		return nil, err
	}
	auditor, err := record.NewAuditor(opts.record(), asCaller.WhoAmI, m)
	if err != nil {
		return nil, err
	}
	if auditor != nil {
		authorizer.OnIdentified(auditor.Names.Put)
	}
	underWay := newLive(objects.OwnerOf)
	seen := locate.NewChanges()
	ways, err := upstream.New(upstream.Options{
		Mode: opts.Transport, Runtime: toPods, Cache: objects, Changes: seen, Filter: headers.NewFilter(opts.HubHeaders, opts.HubCookies),
		Limits: settings.limits, Metrics: m, Log: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	used, err := lifecycle.NewActivity(settings.limits, typed, m, opts.Logger)
	if err != nil {
		return nil, err
	}
	used.Clock = opts.clock
	if err := objects.Watch(seen.Handler()); err != nil {
		return nil, err
	}
	if _, err := objects.Namespaces.AddEventHandler(underWay.ends()); err != nil {
		return nil, fmt.Errorf("watching placements: %w", err)
	}
	bound.OnChange(func(cluster string) {
		now := time.Now()
		authorizer.Forget(cluster, now)
		underWay.recheck(cluster, "", now)
	})
	front, err := access.NewFrontProxies(opts.RequestHeader)
	if err != nil {
		return nil, err
	}
	previews, err := newPreviews(settings, typed, opts.Names.SystemNamespace(), m, opts.Logger)
	if err != nil {
		return nil, err
	}
	registered, err := newRegistration(typed, opts.Names.SystemNamespace(), opts.clock, m, opts.Logger)
	if err != nil {
		return nil, err
	}
	draining, drain := context.WithCancel(context.Background())
	placer := &locate.Placer{Cache: objects, Changes: seen}
	wakes := wake.New(wake.Options{
		Limits: settings.limits, Changes: seen, Placer: placer, Ways: ways, Activity: used, Metrics: m, Draining: draining,
	})
	kinds.Watchers = []cache.ResourceEventHandler{underWay.ends(), wakes.Instances()}
	s := &Server{
		opts: opts, log: opts.Logger, cache: objects, kinds: kinds, settings: settings, metrics: m, drain: drain, bound: bound,
		handler: &handler{
			router: locate.Router{Prefix: opts.PathPrefix}, settings: settings, kinds: kinds, baselines: offered, bound: bound, front: front, live: underWay, tenant: asCaller, authorizer: authorizer,
			placer: placer, limits: limits, metrics: m, auditor: auditor, log: opts.Logger, draining: draining,
			secrets: typed.CoreV1(), previews: previews, activity: used, wakes: wakes, fence: registered.fence,
			ways: ways,
		},
	}
	s.registration, registered.filled = registered, s.filled
	s.heartbeat = &heartbeat{client: typed, namespace: opts.Names.SystemNamespace(), serves: func() bool { return s.notReady() == "" }, clock: opts.clock, metrics: m, log: opts.Logger}
	return s, nil
}

// unthrottled takes client-go's own rate limit off: five requests per second by default.
func unthrottled(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}

// endTimeout bounds how long Run waits for exchanges that were cut. They end at once; the bound is
// for a defect, so that it does not keep the process.
const endTimeout = 10 * time.Second

// Run serves until ctx ends, then drains: it becomes unready, ends streams so that they are
// opened elsewhere, goes on for DrainDelay, and lets requests in flight finish within
// DrainTimeout. It returns nil after an orderly end.
func (s *Server) Run(ctx context.Context) error {
	// The caches live longer than ctx: requests that finish while draining need them.
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaches()
	group, groupCtx := errgroup.WithContext(ctx)
	background, backgroundCtx := errgroup.WithContext(caches)
	background.Go(func() error { s.cache.Run(backgroundCtx, s.log); return nil })
	background.Go(func() error { return s.kinds.Run(backgroundCtx) })
	background.Go(func() error { return s.bound.Run(backgroundCtx) })
	background.Go(func() error { s.handler.baselines.run(backgroundCtx); return nil })
	background.Go(func() error { s.handler.front.Run(backgroundCtx); return nil })
	background.Go(func() error { s.settings.run(backgroundCtx); return nil })
	background.Go(func() error { s.handler.previews.keys.run(backgroundCtx); return nil })
	background.Go(func() error { s.handler.activity.Run(backgroundCtx); return nil })
	background.Go(func() error { s.heartbeat.run(backgroundCtx); return nil })
	var err error
	if s.handler.tracer, err = record.NewTracer(ctx, s.opts.record()); err != nil {
		return err
	}
	defer s.handler.tracer.Close(context.WithoutCancel(ctx), s.log)
	limits := s.settings.listen(ctx)

	verbs, err := s.listen(ctx, limits, func(f func(context.Context) error) {
		background.Go(func() error { return f(backgroundCtx) })
	})
	if err != nil {
		return err
	}
	s.registration.listensAt(verbs.listener.Addr().String())
	background.Go(func() error { s.registration.run(backgroundCtx); return nil })
	servers := []*http.Server{verbs.server}
	group.Go(verbs.serve)
	addresses := [2]net.Addr{verbs.listener.Addr(), nil}
	if s.opts.MetricsAddress != "0" {
		private, err := s.listenPrivate(ctx, limits)
		if err != nil {
			_ = verbs.listener.Close()
			return err
		}
		servers = append(servers, private.server)
		addresses[1] = private.listener.Addr()
		group.Go(private.serve)
	}
	background.Go(func() error { s.handler.auditor.Run(); return nil })
	s.log.Info("data plane is listening", "address", addresses[0].String(), "tls", !s.opts.Insecure,
		"private", s.opts.MetricsAddress, "audit", s.opts.AuditLog != "", "traces", s.handler.tracer != nil)
	if s.listening != nil {
		s.listening(addresses[0], addresses[1])
	}
	group.Go(func() error {
		<-groupCtx.Done()
		return s.shutDown(context.WithoutCancel(ctx), servers)
	})
	err = group.Wait()
	// The servers do not wait for what was cut or has outlived its handler; its audit line needs
	// the audit log, and its end the caches.
	s.handler.underWay.Wait(endTimeout)
	s.handler.activity.Flush()
	s.registration.release(context.WithoutCancel(ctx))
	err = errors.Join(err, s.handler.auditor.Close())
	stopCaches()
	err = errors.Join(err, background.Wait())
	s.handler.wakes.Stop()
	s.handler.tenant.Close()
	s.handler.ways.CloseIdleConnections()
	return err
}

func (s *Server) shutDown(ctx context.Context, servers []*http.Server) error {
	s.log.Info("draining")
	s.drain()
	delay := time.NewTimer(s.opts.DrainDelay)
	defer delay.Stop()
	<-delay.C
	ctx, cancel := context.WithTimeout(ctx, s.opts.DrainTimeout)
	defer cancel()
	var errs []error
	for _, server := range servers {
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Warn("cutting requests that did not finish in time", "timeout", s.opts.DrainTimeout)
			err = server.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("shutting down: %w", err))
		}
	}
	s.log.Info("drained")
	return errors.Join(errs...)
}

// listening is an http.Server with its listener.
type serving struct {
	server   *http.Server
	listener net.Listener
	tls      bool
}

func (v serving) serve() error {
	var err error
	if v.tls {
		err = v.server.ServeTLS(v.listener, "", "")
	} else {
		err = v.server.Serve(v.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving: %w", err)
}

// listen opens the listener of the verbs.
func (s *Server) listen(ctx context.Context, limits *limit.Limits, background func(func(context.Context) error)) (serving, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opts.ListenAddress)
	if err != nil {
		return serving{}, fmt.Errorf("listening: %w", err)
	}
	bounded := newBoundedListener(listener, s.settings.limits, s.metrics)
	s.settings.onChange(bounded.look)
	if err := s.metrics.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sandbar_dataplane_connections", Help: "Connections of callers; upgraded ones are streams instead.",
	}, func() float64 { return float64(bounded.count()) })); err != nil {
		_ = listener.Close()
		return serving{}, fmt.Errorf("registering the metric of connections: %w", err)
	}
	server := s.httpServer(endDoubtfulConnections(noteRequests(s.probes(s.handler))), limits)
	server.ConnState, server.ConnContext = bounded.observe, withConn
	server.HTTP2.CountError = func(name string) { s.metrics.HTTP2Errors.Get(http2Error(name)).Inc() }
	if s.opts.Insecure {
		return serving{server: server, listener: bounded}, nil
	}
	certificate, err := certwatcher.New(s.opts.CertFile, s.opts.KeyFile)
	if err != nil {
		_ = listener.Close()
		return serving{}, fmt.Errorf("reading the serving certificate: %w", err)
	}
	background(certificate.Start)
	server.TLSConfig = tlsConfig(certificate.GetCertificate)
	s.handler.front.Ask(server.TLSConfig)
	return serving{server: server, listener: bounded, tls: true}, nil
}

// listenPrivate opens the listener of metrics, probes and profiles.
func (s *Server) listenPrivate(ctx context.Context, limits *limit.Limits) (serving, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opts.MetricsAddress)
	if err != nil {
		return serving{}, fmt.Errorf("listening for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.Handler())
	handleProfiles(mux)
	return serving{server: s.httpServer(s.probes(mux), limits), listener: listener}, nil
}

// httpServer makes a server with the limits. It has no write timeout: that would cut streams;
// see exchange.Write for what bounds a client that takes nothing.
func (s *Server) httpServer(h http.Handler, l *limit.Limits) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.ReadHeaderTimeout,
		IdleTimeout:       l.IdleTimeout,
		MaxHeaderBytes:    l.HeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.HTTP2Streams, SendPingTimeout: l.IdleTimeout, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
