// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const (
	pathHealthz    = "/healthz"
	pathAppHealthz = "/healthz/app"

	// readHeaderTimeout and maxHeaderBytes bound what a caller can hold before it
	// has shown a token.
	readHeaderTimeout = 10 * time.Second
	maxHeaderBytes    = 32 << 10
	idleTimeout       = 90 * time.Second

	// strangerTimeout bounds the reading of a body that nobody asked for, from a
	// caller without a token.
	strangerTimeout = 10 * time.Second

	// bodyTimeout bounds the reading of one body: 32 MiB at 1 Mbit/s.
	bodyTimeout = 5 * time.Minute

	// writeTimeout bounds one write: an answer, or a piece of a stream. A stream
	// ends when its reader has taken nothing for that long, and never before.
	writeTimeout = 2 * time.Minute

	// Requests in flight per kind; more get 429. Each log request costs up to
	// about 300 KiB, each sync up to a few times the greatest file.
	maxCalls = 64
	maxLogs  = 128
	maxSyncs = 4
	maxReads = 16
	// Each watch is an inotify instance, of which a user has 128 on a node by default, the
	// apps' own included.
	maxWatches = 4
)

// server answers the control contract.
type server struct {
	config     Config
	logger     *slog.Logger
	workspace  *workspace.Workspace
	ring       *ringlog.Ring
	supervisor *supervise.Supervisor
	execs      *execs.Manager
	variables  *variables
	reloader   *reloader
	deferred   *deferred
	began      time.Time
	// draining ends when the log follows shall end.
	draining context.Context

	// guard decides who may call.
	guard *guard
	// probes are the endpoints that need no token.
	probes map[string]func() error
	routes map[string]route
}

// route is one endpoint. A slot is held while the handler runs.
type route struct {
	slots   chan struct{}
	methods map[string]handler
}

type handler func(http.ResponseWriter, *http.Request) error

func newServer(s server) *server {
	s.began, s.deferred, s.guard = time.Now(), new(deferred), newGuard(s.config.Tokens, s.config.PodUID)
	calls := make(chan struct{}, maxCalls)
	get := func(h handler) map[string]handler { return map[string]handler{http.MethodGet: h} }
	post := func(h handler) map[string]handler { return map[string]handler{http.MethodPost: h} }
	s.probes = map[string]func() error{pathHealthz: func() error { return nil }, pathAppHealthz: s.appHealth}
	s.routes = map[string]route{
		"/readyz":  {calls, get(s.readyz)},
		"/status":  {calls, get(s.status)},
		"/logs":    {make(chan struct{}, maxLogs), get(s.logs)},
		"/exec":    {make(chan struct{}, maxExecs), get(s.exec)},
		"/env":     {calls, map[string]handler{http.MethodGet: s.getEnv, http.MethodPost: s.postEnv}},
		pathFiles:  {make(chan struct{}, maxReads), get(s.files)},
		"/changes": {make(chan struct{}, maxWatches), get(s.changes)},
		"/sync":    {make(chan struct{}, maxSyncs), post(s.sync)},
		"/restart": {calls, post(s.restart)},
	}
	return &s
}

// httpServer wraps the handler with the limits that hold before it runs. There is
// no WriteTimeout: it would cut every log follow.
func (s *server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// It would log what callers sent.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// ServeHTTP does what is common to all requests, in order: alive, who, what, how
// many.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w)
	limitBody(w, r, strangerTimeout)

	// Open, because a kubelet cannot send a token. They say nothing but "alive", and how
	// an app ended that does not stay up.
	if probe, ok := s.probes[r.URL.Path]; ok && r.Method == http.MethodGet {
		if err := probe(); err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		return
	}
	if r.URL.Path == controlproof.ChallengePath && r.Method == http.MethodGet {
		if err := s.guard.challenge(w, r); err != nil {
			writeError(w, err)
		}
		return
	}
	// Before routing: without the token nobody learns which endpoints there are.
	if err := s.guard.permit(r); err != nil {
		writeError(w, err)
		return
	}
	limitBody(w, r, bodyTimeout)
	target, ok := s.routes[endpoint(r.URL.Path)]
	if _, isProbe := s.probes[r.URL.Path]; isProbe || r.URL.Path == controlproof.ChallengePath {
		target, ok = route{methods: map[string]handler{http.MethodGet: nil}}, true
	}
	if !ok {
		writeError(w, errNotFound)
		return
	}
	handle, ok := target.methods[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(target.methods)), ", ")
		w.Header().Set("Allow", allowed)
		writeError(w, &apiError{
			status: http.StatusMethodNotAllowed, Code: "MethodNotAllowed",
			Message: fmt.Sprintf("%s takes %s only", r.URL.Path, allowed),
		})
		return
	}
	select {
	case target.slots <- struct{}{}:
		defer func() { <-target.slots }()
	default:
		writeError(w, errBusy)
		return
	}
	if err := handle(w, r); err != nil {
		if classify(err) == errInternal {
			s.logger.Error("a request failed", "path", r.URL.Path, "error", err)
		}
		writeError(w, err)
	}
}

// endpoint is the path under which a request is routed. What lies behind /files/ is
// the name of a file.
func endpoint(path string) string {
	if strings.HasPrefix(path, pathFiles+"/") {
		return pathFiles
	}
	return path
}

// limitBody bounds the time in which the body must arrive. A request without one
// gets no deadline: net/http also reads to notice that a caller has gone, takes a
// deadline for that, and would end every log follow by it.
func limitBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	// It fails where a connection has no deadlines, and none can be set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
}

// recover answers a request whose handler panicked, and keeps the process, which
// the app depends on. The value may hold parts of a body; its type and the stack
// do not.
func (s *server) recover(w http.ResponseWriter) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler { //nolint:errorlint // the very value that net/http names
		panic(value)
	}
	s.logger.Error("a request panicked", "type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
	writeError(w, errInternal)
}
