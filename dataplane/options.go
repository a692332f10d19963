// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// GarbageHeadroom is what a process that serves should let its heap grow by before Go collects
// (headroom.Keep). A data plane holds little: without, a fifth of its processor time went into
// collections. Half of this gains nearly as much; twice of it gains nothing more.
const GarbageHeadroom = 64 << 20

// Options configure the data plane. The zero value of a field means its default.
type Options struct {
	// ListenAddress is where verbs are served. Defaults to ":8443".
	ListenAddress string
	// CertFile and KeyFile are the PEM files of the serving certificate; they are read again
	// when they change. Both are needed unless Insecure is set.
	CertFile string
	KeyFile  string
	// Insecure serves plain HTTP. Callers' tokens then travel in the clear: only for
	// loopback, or behind something that ends TLS on the same machine.
	Insecure bool
	// MetricsAddress is where /metrics, /livez, /readyz and /debug/pprof are served in plain
	// HTTP, to anybody who reaches it: keep it private. Defaults to "127.0.0.1:9090"; "0"
	// serves none.
	MetricsAddress string
	// PathPrefix is where a hub mounts the data plane, for example
	// "/services/providers/infrastructure". Paths without it are served all the same.
	// Defaults to none.
	PathPrefix string
	// HubCookies are names of cookies that a hub on the same host, or on one above the previews',
	// keeps for itself; a name that ends in an asterisk stands for all that begin so. No pod gets
	// them. Defaults to none.
	HubCookies []string
	// HubHeaders are names of request headers that a hub, or whatever else stands in front, adds
	// about callers, beside those of docs/headers.md; an asterisk behind as in HubCookies. No pod
	// gets them. Defaults to none.
	HubHeaders []string
	// ExportName is the name of the APIExport in the provider workspace. Defaults to
	// "sandbar.dev".
	ExportName string
	// Names are those of what the provider has on the runtime cluster. Defaults to those of the provider without a
	// name there.
	Names placement.Names
	// RequestHeader says whose word on a caller's identity counts. Defaults to nobody's.
	RequestHeader access.RequestHeader
	// Transport says how requests reach pods. Defaults to upstream.Auto.
	Transport upstream.Mode
	// AuthorizationMode says which right a caller needs. Defaults to AuthorizeBoth.
	AuthorizationMode access.Mode
	// IdentityWorkspace is where kcp is asked whose a bearer token is. Every authenticated user must
	// have access to it. Defaults to "root", to which kcp gives them that.
	IdentityWorkspace string
	// WorkspaceAuthentication must be set where kcp's feature gate of the same name is: then a
	// workspace may know tokens that kcp as a whole does not.
	WorkspaceAuthentication bool
	// AuthorizationCacheSize is how many answers of kcp are kept. Defaults to 65,536.
	AuthorizationCacheSize int
	// AuthorizationConcurrency is how many callers are authorized at once. Defaults to 256.
	AuthorizationConcurrency int
	// DrainDelay is how long the server goes on accepting requests after it has become
	// unready, so that load balancers notice. Defaults to 2 s.
	DrainDelay time.Duration
	// DrainTimeout is how long requests in flight may take to finish then. Defaults to 30 s.
	DrainTimeout time.Duration
	// AuditLog is where a JSON line per request goes that says who did what: a file, or "-"
	// for stdout. Defaults to none. docs/observability.md explains the fields.
	AuditLog string
	// AuditLogMaxSize is the size in MiB at which the file is renamed, with the time in its
	// name, and a new one begun. Defaults to 100.
	AuditLogMaxSize int
	// AuditLogMaxBackups is how many renamed files are kept. Defaults to 10.
	AuditLogMaxBackups int
	// auditOut takes the place of AuditLog's file in tests.
	auditOut io.WriteCloser
	// TracingEndpoint is the URL of what receives traces by OTLP over HTTP, for example
	// "http://collector:4318". Defaults to what the environment's OTEL_EXPORTER_OTLP_ENDPOINT
	// says; without either nothing is traced.
	TracingEndpoint string
	// TracingRatio is the share, from 0 to 1, of the requests without a traceparent that are
	// traced. Defaults to 0.01. Those whose traceparent says that they are traced are traced
	// too, up to 100 per second.
	TracingRatio float64
	// spans takes the place of the exporter in tests.
	spans sdktrace.SpanExporter
	// clock compares this machine's time with the runtime cluster's; nil where that has no server.
	clock *inuse.Clock
	// Version is the program's version, for the metric build_info. Defaults to "dev".
	Version string
	// Limits are in force where the InfrastructureProvider's spec.limits sets nothing.
	Limits limit.Limits
	// Collectors are metrics of the process, served with the data plane's own.
	Collectors []prometheus.Collector
	// Logger gets access lines and everything else. Defaults to slog.Default().
	Logger *slog.Logger
}

// SetDefaults fills in what is not set.
func (o *Options) SetDefaults() {
	o.ListenAddress = cmp.Or(o.ListenAddress, ":8443")
	o.MetricsAddress = cmp.Or(o.MetricsAddress, "127.0.0.1:9090")
	o.ExportName = cmp.Or(o.ExportName, "sandbar.dev")
	o.Transport = cmp.Or(o.Transport, upstream.Auto)
	o.AuthorizationMode = cmp.Or(o.AuthorizationMode, access.Both)
	o.IdentityWorkspace = cmp.Or(o.IdentityWorkspace, "root")
	o.AuthorizationCacheSize = cmp.Or(o.AuthorizationCacheSize, 65536)
	o.AuthorizationConcurrency = cmp.Or(o.AuthorizationConcurrency, 256)
	o.Version = cmp.Or(o.Version, "dev")
	o.AuditLogMaxSize = cmp.Or(o.AuditLogMaxSize, 100)
	o.AuditLogMaxBackups = cmp.Or(o.AuditLogMaxBackups, 10)
	o.TracingRatio = cmp.Or(o.TracingRatio, 0.01)
	o.DrainDelay = cmp.Or(o.DrainDelay, 2*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 30*time.Second)
	o.RequestHeader.SetDefaults()
	o.Limits.SetDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// AddFlags adds a flag for each option, with the option's default.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.SetDefaults()
	fs.StringVar(&o.ListenAddress, "listen-address", o.ListenAddress, "where the data plane serves verbs")
	fs.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "PEM file of the serving certificate; read again when it changes")
	fs.StringVar(&o.KeyFile, "tls-key-file", o.KeyFile, "PEM file of the serving certificate's key")
	fs.BoolVar(&o.Insecure, "insecure", o.Insecure, "serve plain HTTP: only for loopback or behind what ends TLS on the same machine")
	fs.StringVar(&o.MetricsAddress, "dataplane-metrics-address", o.MetricsAddress, "private address of the data plane's /metrics, /livez, /readyz and /debug/pprof; 0 for nowhere")
	fs.StringVar(&o.AuditLog, "audit-log", o.AuditLog, "file that gets a JSON line per request of who did what, or - for stdout; empty for none")
	fs.IntVar(&o.AuditLogMaxSize, "audit-log-max-size", o.AuditLogMaxSize, "size in MiB at which the audit log's file is put away and a new one begun")
	fs.IntVar(&o.AuditLogMaxBackups, "audit-log-max-backups", o.AuditLogMaxBackups, "how many of the audit log's files are kept besides the current one")
	fs.StringVar(&o.TracingEndpoint, "tracing-endpoint", o.TracingEndpoint, "URL of an OTLP/HTTP receiver of traces; empty for that of OTEL_EXPORTER_OTLP_ENDPOINT, or none")
	fs.Float64Var(&o.TracingRatio, "tracing-ratio", o.TracingRatio, "share of the requests without a traceparent that are traced, from 0 to 1")
	fs.StringVar(&o.PathPrefix, "path-prefix", o.PathPrefix, "path under which a hub mounts the data plane, for example /services/providers/infrastructure")
	fs.StringSliceVar(&o.HubCookies, "hub-cookies", o.HubCookies, "names of a hub's own cookies, which no pod gets; NAME* for all that begin so; repeatable")
	fs.StringSliceVar(&o.HubHeaders, "hub-headers", o.HubHeaders, "names of request headers by which a hub or another front tells of callers, beside those that are known, which no pod gets; NAME* for all that begin so; repeatable")
	o.RequestHeader.AddFlags(fs)
	fs.StringVar((*string)(&o.Transport), "transport", string(o.Transport), "how requests reach pods: direct, apiserver or auto")
	fs.StringVar((*string)(&o.AuthorizationMode), "authorization-mode", string(o.AuthorizationMode), "which right a caller needs: both, subresource or instanceGet")
	fs.StringVar(&o.IdentityWorkspace, "identity-workspace", o.IdentityWorkspace, "workspace in which kcp is asked whose a bearer token is; every authenticated user needs access to it")
	fs.BoolVar(&o.WorkspaceAuthentication, "workspace-authentication", o.WorkspaceAuthentication, "set if kcp's feature gate WorkspaceAuthentication is on: workspaces may know tokens that kcp as a whole does not")
	fs.IntVar(&o.AuthorizationCacheSize, "authorization-cache-size", o.AuthorizationCacheSize, "how many of kcp's answers are kept")
	fs.IntVar(&o.AuthorizationConcurrency, "authorization-concurrency", o.AuthorizationConcurrency, "how many callers are authorized at once")
	fs.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "how long requests are still accepted after the server has become unready")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long requests in flight may take to finish at shutdown")
}

// Validate reports everything that is wrong with the options, not only the first.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, _, err := net.SplitHostPort(o.ListenAddress)
	check(err == nil, "listen-address %q is not host:port", o.ListenAddress)
	if o.MetricsAddress != "0" {
		_, _, err = net.SplitHostPort(o.MetricsAddress)
		check(err == nil, "dataplane-metrics-address %q is neither host:port nor 0", o.MetricsAddress)
	}
	check(o.TracingRatio >= 0 && o.TracingRatio <= 1, "tracing-ratio must be from 0 to 1")
	if o.TracingEndpoint != "" {
		u, err := url.Parse(o.TracingEndpoint)
		check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "tracing-endpoint must be an http or https URL")
	}
	check(o.AuditLogMaxSize > 0, "audit-log-max-size must be positive")
	check(o.AuditLogMaxBackups > 0, "audit-log-max-backups must be positive")
	check((o.CertFile == "") == (o.KeyFile == ""), "tls-cert-file and tls-key-file must be set together")
	check(o.Insecure != (o.CertFile != ""), "either tls-cert-file and tls-key-file or insecure must be set")
	check(o.PathPrefix == "" || strings.HasPrefix(o.PathPrefix, "/") && !strings.HasSuffix(o.PathPrefix, "/"),
		"path-prefix %q must begin with a slash and end without one", o.PathPrefix)
	switch o.Transport {
	case upstream.Direct, upstream.APIServer, upstream.Auto:
	default:
		check(false, "transport %q is none of direct, apiserver and auto", o.Transport)
	}
	switch o.AuthorizationMode {
	case access.Both, access.Subresource, access.InstanceGet:
	default:
		check(false, "authorization-mode %q is none of both, subresource and instanceGet", o.AuthorizationMode)
	}
	check(locate.IsWorkspace(o.IdentityWorkspace), "identity-workspace %q is no workspace", o.IdentityWorkspace)
	check(o.AuthorizationCacheSize > 0, "authorization-cache-size must be positive")
	check(o.AuthorizationConcurrency > 0, "authorization-concurrency must be positive")
	check(o.DrainDelay >= 0 && o.DrainTimeout > 0, "drain-delay must not be negative and drain-timeout must be positive")
	errs = append(errs, headers.ValidateNames("hub-cookies", o.HubCookies), headers.ValidateHubHeaders(o.HubHeaders), o.RequestHeader.Validate(o.Insecure), o.Limits.Validate())
	return errors.Join(errs...)
}

// record is what of the options concerns package record.
func (o *Options) record() record.Options {
	return record.Options{
		AuditLog: o.AuditLog, AuditLogMaxSize: o.AuditLogMaxSize, AuditLogMaxBackups: o.AuditLogMaxBackups, AuditOut: o.auditOut,
		TracingEndpoint: o.TracingEndpoint, TracingRatio: o.TracingRatio, Spans: o.spans, Version: o.Version, Logger: o.Logger,
	}
}
