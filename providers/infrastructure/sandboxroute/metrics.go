// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

var (
	routesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sandbar_routes",
		Help: "SandboxRoutes by the reason of their condition Attached; RouteAttached are those that lead requests.",
	}, []string{"reason"})
	eventsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_route_events_total",
		Help: "Events about SandboxRoutes by outcome (written, unclaimed: the workspace has not accepted the claim, limited, failed).",
	}, []string{"outcome"})
)

// reasons are all that a SandboxRoute can have.
var reasons = []string{
	sandbarv1alpha1.RouteAttached, sandbarv1alpha1.RoutePending, sandbarv1alpha1.RouteInvalidSpec, sandbarv1alpha1.RouteNotAllowed,
	sandbarv1alpha1.RouteProviderUnavailable, sandbarv1alpha1.RouteResolveFailed, sandbarv1alpha1.RouteAttachFailed,
	sandbarv1alpha1.RouteOwnershipConflict, sandbarv1alpha1.RouteShadowed, sandbarv1alpha1.RouteProxyNotReady, sandbarv1alpha1.RouteSuspended,
}

func init() {
	metrics.Registry.MustRegister(routesGauge, eventsTotal)
	for _, reason := range reasons {
		routesGauge.WithLabelValues(reason)
	}
}

// counts count the SandboxRoutes by reason. The zero value has none.
type counts struct {
	mu      sync.Mutex
	reasons map[export.Key]string
}

func (c *counts) note(key export.Key, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key)
	if c.reasons == nil {
		c.reasons = map[export.Key]string{}
	}
	c.reasons[key] = reason
	routesGauge.WithLabelValues(reason).Inc()
}

func (c *counts) drop(key export.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key)
}

func (c *counts) dropLocked(key export.Key) {
	if before, ok := c.reasons[key]; ok {
		delete(c.reasons, key)
		routesGauge.WithLabelValues(before).Dec()
	}
}

// eventWriter writes events beside tenants' objects; *events.Recorder does.
type eventWriter interface {
	Write(ctx context.Context, key export.Key, event *corev1.Event, now time.Time)
}

// tell writes an event when requests are led no more, or not yet for another reason, and when they are again.
func (r *reconciler) tell(ctx context.Context, key export.Key, route *sandbarv1alpha1.SandboxRoute, status *sandbarv1alpha1.SandboxRouteStatus) {
	before, now := attachedOf(&route.Status), attachedOf(status)
	if before.Status == now.Status && before.Reason == now.Reason || now.Status == metav1.ConditionUnknown {
		return
	}
	kind := corev1.EventTypeNormal
	if now.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	at := r.now()
	about := &corev1.ObjectReference{APIVersion: Kind.GVK().GroupVersion().String(), Kind: Kind.Name, Namespace: route.Namespace, Name: route.Name, UID: route.UID}
	r.events.Write(ctx, key, events.Build(about, kind, now.Reason, outcome.Shortened(now.Message, outcome.MaxMessage), at), at)
}
