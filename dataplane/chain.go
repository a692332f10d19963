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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/tenant"
)

// handler serves the verbs.
type handler struct {
	router   locate.Router
	settings *settings
	kinds    *locate.Kinds
	// baselines are what the catalogue of Baselines shows, and bound says to whom.
	baselines  *baselines
	bound      *tenant.VirtualWorkspace
	front      *access.FrontProxies
	live       *live
	tenant     *tenant.Client
	authorizer *access.Authorizer
	placer     *locate.Placer
	limits     *limit.Limiter
	ways       *upstream.Ways
	// secrets reads the runtime cluster live; for passwords alone, which no cache holds.
	secrets  corev1client.SecretsGetter
	previews *previews
	activity *lifecycle.Activity
	wakes    *wake.Wakes
	metrics  *record.Metrics
	auditor  *record.Auditor
	tracer   *record.Tracer
	log      *slog.Logger
	// filled latches: it is set once the caches have been filled. That they are kept up to date is
	// what the fence watches.
	filled atomic.Bool
	fence  *inuse.Fence
	// underWay counts exchanges, those that have outlived their handlers too.
	underWay record.Tally
	// draining ends when the server begins to shut down; streams end with it.
	draining context.Context //nolint:containedctx // the server's life, not a request's
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.underWay.Begin()
	x := newExchange(w, r, h.settings.limits().StallTimeout)
	x.AuditID = h.auditor.Begin()
	x.request, x.span = h.tracer.Begin(x.request)
	x.traceID = record.TraceIDOf(x.span)
	// Whoever has the exchange ends it: this function, also when it panics to abort, or the
	// relay of an upgraded connection.
	defer func() {
		if x.call.Relay != nil {
			x.handOver()
			go h.relay(x)
		} else {
			h.finish(x)
		}
	}()
	if refused := h.serve(x); refused != nil {
		x.evenOut(refused)
		h.previews.pace(x, refused)
		x.fail(refused)
	}
}

// serve takes a request through its steps. Whatever refuses it does so before a pod hears of it.
//
// The order leaks nothing: before the caller is authorized only the form of the request is
// looked at; whether a verb, a method, an instance or a placement exists is told only to those
// whom kcp has let through.
func (h *handler) serve(x *exchange) (refused *refusal.Error) {
	name, below, valid := h.previews.match(x.request.Host)
	if h.ready() && !h.fence.Open(time.Now()) {
		x.onPreview = below
		return refusal.Fenced()
	}
	if below {
		return h.servePreview(x, name, valid)
	}
	if refused = wellFormed(x.request); refused != nil {
		return refused
	}
	if x.route, refused = h.router.Parse(x.request); refused != nil {
		return refused
	}
	if !h.ready() {
		return refusal.Unavailable(refusal.CauseStarting, "the data plane is starting: try again", 0, nil)
	}
	x.kind = h.kinds.Find(x.route)
	caller, refused := h.identify(x)
	if refused != nil {
		return refused
	}
	if x.route.Catalogue != "" {
		return h.serveCatalogue(x, caller)
	}
	if x.route.Claims() {
		return h.serveClaim(x, caller)
	}
	return h.serveVerb(x, caller)
}

// serveVerb takes a request from the question who may do what to the answer.
func (h *handler) serveVerb(x *exchange, caller tenant.Caller) (refused *refusal.Error) {
	if x.question, refused = ask(x, caller); refused != nil {
		return refused
	}
	permission, refused := h.authorize(x)
	if refused != nil {
		return refused
	}
	switch x.route.Verb { // every kind has these, without an endpoint
	case contract.ProxyURLVerb:
		return h.servePreviewLinks(x, permission)
	case contract.RenewVerb:
		return h.serveRenew(x, permission)
	}
	endpoint, refused := x.endpoint()
	if refused != nil {
		return refused
	}
	switch endpoint.From {
	case contract.FromInstanceStatus:
		return h.serveStatus(x, permission)
	case contract.FromPassword:
		return h.servePassword(x, permission)
	}
	at, refused := h.place(x, permission)
	if refused != nil {
		return refused
	}
	x.owner = at.Asked
	x.isStream = endpoint.Stream || access.IsUpgrade(x.request.Header)
	x.longest = time.Duration(endpoint.StreamDurationSeconds) * time.Second
	if refused = h.admit(x, at); refused != nil {
		return refused
	}
	if x.wantsKeptLog(at) {
		return h.serveKeptLog(x, at, endpoint)
	}
	if at, refused = h.awake(x, at, endpoint); refused != nil {
		return refused
	}
	to, refused := h.placer.ResolveLive(x.request.Context(), at, x.route, endpoint)
	if refused != nil {
		return refused
	}
	now := x.outcome(0)
	x.auditStarted = h.auditor.Started(&now)
	return h.carry(x, to, endpoint)
}

// ready reports whether the caches have been filled and the replica has registered. Until then
// everything would seem not to exist, and a client that is told 404 gives up, or worse, cleans up.
func (h *handler) ready() bool {
	if h.filled.Load() {
		return true
	}
	if !h.placer.Cache.Ready() || !h.kinds.Indexed() || !h.fence.Open(time.Now()) {
		return false
	}
	h.filled.Store(true)
	return true
}

// ask puts the question that the request raises.
func ask(x *exchange, caller tenant.Caller) (access.Question, *refusal.Error) {
	verb, ok := access.ReviewVerb(x.request, x.route.Verb)
	if !ok {
		return access.Question{}, refusal.MethodNotAllowed([]string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
	}
	return access.Question{
		Caller: caller, Subresource: x.route.Verb, Verb: verb, Declared: x.kind.Declares(x.route), Ref: x.route.Ref(),
		From: x.request.RemoteAddr, LinkIssued: x.preview.Issued(),
	}, nil
}

// authorize asks whether the request may go on.
func (h *handler) authorize(x *exchange) (access.Grant, *refusal.Error) {
	ctx, span := spans.Child(x.request.Context(), "authorize", trace.SpanKindInternal)
	defer span.End()
	permission, refused := h.authorizer.Authorize(ctx, x.question)
	if x.owner.UID == "" { // else it is known from the placement, and kcp may tell less
		x.owner = permission.Owner
	}
	return permission, refused
}

// endpoint finds the endpoint of the request in the kind's contract.
func (x *exchange) endpoint() (sandbarv1alpha1.Endpoint, *refusal.Error) {
	endpoint, ok := x.kind.Endpoint(x.route)
	if !ok {
		return endpoint, refusal.NotFound(refusal.CauseNoVerb)
	}
	if contract.PodStream(&endpoint) {
		return endpoint, upstream.CheckPodUpgrade(x.request, endpoint.PodSubresource)
	}
	if !slices.Contains(endpoint.Methods, x.request.Method) { // else nothing need be listed
		if allowed := allowedMethods(endpoint); !slices.Contains(allowed, x.request.Method) {
			return endpoint, refusal.MethodNotAllowed(allowed)
		}
	}
	if access.IsUpgrade(x.request.Header) {
		if !endpoint.Upgrade {
			return endpoint, upstream.RefusedUpgrade("this verb takes no upgrades: send a plain request")
		}
		return endpoint, upstream.CheckUpgrade(x.request)
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
func (h *handler) place(x *exchange, g access.Grant) (*locate.Place, *refusal.Error) {
	at, refused := h.placer.Placed(x.request.Context(), h.authorizer, x.question, g, func(g access.Grant) (*locate.Place, *refusal.Error) {
		return h.placer.Find(x.kind, x.route, g)
	})
	if refused == nil && x.preview != nil && (at.Asked != x.preview.Owner() || at.ID.Namespace() != x.preview.PlacementNamespace()) {
		return nil, refusal.NotFound(refusal.CauseNotPlaced) // the name is another instance's now
	}
	return at, refused
}

// locate is place for a verb that needs no runtime instance, only that there is a placement.
func (h *handler) locate(x *exchange, g access.Grant) (*locate.Place, *refusal.Error) {
	return h.placer.Placed(x.request.Context(), h.authorizer, x.question, g, func(g access.Grant) (*locate.Place, *refusal.Error) {
		return h.placer.Locate(x.kind, x.route, g)
	})
}

// admit counts the request, until it ends, against the limits of its instance and workspace.
func (h *handler) admit(x *exchange, at *locate.Place) *refusal.Error {
	if limit := h.settings.limits().BodyBytes; x.request.ContentLength > limit {
		return refusal.BodyTooLarge(limit)
	}
	release, refused := h.limits.Admit(at.Owner.Cluster, string(at.Owner.UID), x.isStream)
	if refused != nil {
		return refused
	}
	x.AtEnd(release)
	now := x.outcome(0)
	x.AtEnd(h.metrics.Enter(&now))
	return nil
}

// finish ends an exchange, and traces, counts, audits and logs it.
func (h *handler) finish(x *exchange) {
	defer h.underWay.End()
	x.finish()
	took := time.Since(x.started)
	x.use.End(x.started.Add(took))
	o := x.outcome(took)
	h.tracer.End(&o)
	h.metrics.Observe(&o)
	h.auditor.Ended(&o)
	record.LogAccess(x.request.Context(), h.log, &o)
}
