// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

// handler serves the verbs.
type handler struct {
	router     router
	hub        hubCookies
	settings   *settings
	kinds      *kinds
	front      *frontProxies
	live       *live
	tenant     *tenant.Client
	authorizer *authorizer
	placer     *placer
	limits     *limiter
	transports *chooser
	previews   *previews
	activity   *activity
	wakes      *wakes
	metrics    *metrics
	auditor    *auditor
	tracer     *tracer
	log        *slog.Logger
	buffers    bufferPool
	// filled latches: it is set once the caches have been filled.
	filled atomic.Bool
	// underWay counts exchanges, those that have outlived their handlers too.
	underWay tally
	// draining ends when the server begins to shut down; streams end with it.
	draining context.Context //nolint:containedctx // the server's life, not a request's
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.underWay.begin()
	x := newExchange(w, r, h.settings.limits().StallTimeout)
	h.auditor.begin(x)
	h.tracer.begin(x)
	// Whoever has the exchange ends it: this function, also when it panics to abort, or the
	// relay of an upgraded connection.
	defer func() {
		if x.relay != nil {
			go h.relay(x)
		} else {
			h.finish(x)
		}
	}()
	if refused := h.serve(x); refused != nil {
		x.fail(refused)
	}
}

// serve takes a request through its steps. Whatever refuses it does so before a pod hears of it.
//
// The order leaks nothing: before the caller is authorized only the form of the request is
// looked at; whether a verb, a method, an instance or a placement exists is told only to those
// whom kcp has let through.
func (h *handler) serve(x *exchange) (refused *refusal) {
	if name, below, valid := h.previews.match(x.request.Host); below {
		return h.servePreview(x, name, valid)
	}
	if refused = wellFormed(x.request); refused != nil {
		return refused
	}
	if x.route, refused = h.router.parse(x.request.URL); refused != nil {
		return refused
	}
	if !h.ready() {
		return unavailable(causeStarting, "the data plane is starting: try again", 0, nil)
	}
	x.kind = h.kinds.find(x.route)
	caller, refused := h.identify(x)
	if refused != nil {
		return refused
	}
	if x.route.catalogue {
		return h.serveCatalogue(x, caller)
	}
	return h.serveVerb(x, caller)
}

// serveVerb takes a request from the question who may do what to the answer.
func (h *handler) serveVerb(x *exchange, caller tenant.Caller) (refused *refusal) {
	if x.question, refused = ask(x, caller); refused != nil {
		return refused
	}
	permission, refused := h.authorize(x)
	if refused != nil {
		return refused
	}
	switch x.route.verb { // every kind has these, without an endpoint
	case contract.ProxyURLVerb:
		return h.servePreviewLinks(x, permission)
	case contract.RenewVerb:
		return h.serveRenew(x, permission)
	}
	endpoint, refused := x.endpoint()
	if refused != nil {
		return refused
	}
	if endpoint.From == contract.FromInstanceStatus {
		return h.serveStatus(x, permission)
	}
	at, refused := h.place(x, permission)
	if refused != nil {
		return refused
	}
	x.id = at.id.ID
	x.isStream = endpoint.Stream || isUpgrade(x.request.Header)
	x.longest = time.Duration(endpoint.StreamDurationSeconds) * time.Second
	if refused = h.admit(x, at); refused != nil {
		return refused
	}
	if at, refused = h.awake(x, at, endpoint); refused != nil {
		return refused
	}
	to, refused := h.placer.resolve(at, x.route, endpoint)
	if refused != nil {
		return refused
	}
	h.auditor.started(x)
	return h.transport(x, to, endpoint)
}

// ready tells whether the caches have been filled. Until then everything would seem not to exist,
// and a client that is told 404 gives up, or worse, cleans up.
func (h *handler) ready() bool {
	if h.filled.Load() {
		return true
	}
	if !h.placer.cache.ready() || !h.kinds.indexed() {
		return false
	}
	h.filled.Store(true)
	return true
}

// ask puts the question that the request raises.
func ask(x *exchange, caller tenant.Caller) (question, *refusal) {
	verb, ok := reviewVerb(x.request, x.route.verb)
	if !ok {
		return question{}, methodNotAllowed([]string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
	}
	return question{
		caller: caller, subresource: x.route.verb, verb: verb, declared: x.kind.declares(x.route), ref: x.route.ref(),
		from: x.request.RemoteAddr, linkIssued: x.preview.Issued(),
	}, nil
}

func (r route) ref() tenant.Ref {
	return tenant.Ref{
		Workspace: r.workspace, Group: r.group, Version: r.version, Resource: r.resource,
		Namespace: r.namespace, Name: r.name,
	}
}

// authorize asks whether the request may go on.
func (h *handler) authorize(x *exchange) (grant, *refusal) {
	ctx, span := childSpan(x.request.Context(), "authorize", trace.SpanKindInternal)
	defer span.End()
	permission, refused := h.authorizer.authorize(ctx, x.question)
	if x.id.UID == "" { // else it is known from the placement, and kcp may tell less
		x.id = permission.id
	}
	return permission, refused
}

// endpoint finds the endpoint of the request in the kind's contract.
func (x *exchange) endpoint() (sandbarv1alpha1.Endpoint, *refusal) {
	endpoint, ok := x.kind.endpoint(x.route)
	if !ok {
		return endpoint, notFound(causeNoVerb)
	}
	if contract.PodStream(&endpoint) {
		return endpoint, checkPodUpgrade(x.request, endpoint.PodSubresource)
	}
	if !slices.Contains(endpoint.Methods, x.request.Method) { // else nothing need be listed
		if allowed := allowedMethods(endpoint); !slices.Contains(allowed, x.request.Method) {
			return endpoint, methodNotAllowed(allowed)
		}
	}
	if isUpgrade(x.request.Header) {
		if !endpoint.Upgrade {
			return endpoint, refusedUpgrade("this verb takes no upgrades: send a plain request")
		}
		return endpoint, checkUpgrade(x.request)
	}
	return endpoint, nil
}

// allowedMethods lists an endpoint's methods, sorted. GET includes HEAD.
func allowedMethods(e sandbarv1alpha1.Endpoint) []string {
	methods := slices.Clone(e.Methods)
	if e.From != "" && len(methods) == 0 {
		methods = []string{http.MethodGet}
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// place finds the placement.
func (h *handler) place(x *exchange, g grant) (*place, *refusal) {
	at, refused := findPlaced(x.request.Context(), h.authorizer, x.question, g, func(g grant) (*place, *refusal) {
		return h.placer.find(x.kind, x.route, g)
	})
	if refused == nil && x.preview != nil && at.id.ID != x.preview.ID() {
		return nil, notFound(causeNotPlaced) // the name is another instance's now
	}
	return at, refused
}

// locate is place for a verb that needs no runtime instance, only that there is a placement.
func (h *handler) locate(x *exchange, g grant) (placement.ID, *refusal) {
	return findPlaced(x.request.Context(), h.authorizer, x.question, g, func(g grant) (placement.ID, *refusal) {
		at, _, refused := h.placer.locate(x.kind, x.route, g)
		return at.ID, refused
	})
}

// admit counts the request, until it ends, against the limits of its instance and workspace.
func (h *handler) admit(x *exchange, at *place) *refusal {
	if limit := h.settings.limits().BodyBytes; x.request.ContentLength > limit {
		return bodyTooLarge(limit)
	}
	release, refused := h.limits.admit(at.id.Cluster, string(at.id.UID), x.isStream)
	if refused != nil {
		return refused
	}
	x.atEnd(release)
	x.atEnd(h.metrics.enter(x))
	return nil
}

// finish ends an exchange, and traces, counts, audits and logs it.
func (h *handler) finish(x *exchange) {
	defer h.underWay.end()
	x.finish()
	took := time.Since(x.started)
	x.use.end(x.started.Add(took))
	h.tracer.end(x)
	h.metrics.observe(x, took)
	h.auditor.ended(x, took)
	logAccess(x.request.Context(), h.log, x, took)
}
