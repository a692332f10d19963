// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

var (
	servicesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sandbar_intercepted_services",
		Help: "Services that SandboxRoutes ask proxies for, by the result; RouteAttached are those with proxies in front.",
	}, []string{"reason"})
	switchesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_interception_switches_total",
		Help: "Writes of selectors of Services by direction (switch: to the proxies, restore: to the Service's own pods).",
	}, []string{"direction"})
)

// reasons are all that a Service can have.
var reasons = []string{
	sandbarv1alpha1.RouteAttached, sandbarv1alpha1.RoutePending, sandbarv1alpha1.RouteInvalidSpec, sandbarv1alpha1.RouteProviderUnavailable,
	sandbarv1alpha1.RouteResolveFailed, sandbarv1alpha1.RouteAttachFailed, sandbarv1alpha1.RouteOwnershipConflict, sandbarv1alpha1.RouteProxyNotReady,
}

func init() {
	metrics.Registry.MustRegister(servicesGauge, switchesTotal)
	for _, reason := range reasons {
		servicesGauge.WithLabelValues(reason)
	}
	for _, direction := range []intercept.Action{intercept.Switch, intercept.Restore} {
		switchesTotal.WithLabelValues(string(direction))
	}
}

// counts count the Services by reason. The zero value has none.
type counts struct {
	mu      sync.Mutex
	reasons map[types.NamespacedName]string
}

// note counts a Service by what its state says; one for which there is none is not counted.
func (c *counts) note(name types.NamespacedName, v *intercept.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reasons == nil {
		c.reasons = map[types.NamespacedName]string{}
	}
	before, now := c.reasons[name], v.Routes.State.Reason
	if before == now {
		return
	}
	if before != "" {
		servicesGauge.WithLabelValues(before).Dec()
		delete(c.reasons, name)
	}
	if now != "" {
		servicesGauge.WithLabelValues(now).Inc()
		c.reasons[name] = now
	}
}

// did counts a step.
func (c *counts) did(step intercept.Action) {
	if step == intercept.Switch || step == intercept.Restore {
		switchesTotal.WithLabelValues(string(step)).Inc()
	}
}
