// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

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
	sessionsGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sandbar_dev_sessions",
		Help: "DevSessions by phase; Ready are those that take the requests of their workload.",
	}, []string{"phase"})
	eventsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_dev_session_events_total",
		Help: "Events about DevSessions by outcome (written, unclaimed: the workspace has not accepted the claim, limited, failed).",
	}, []string{"outcome"})
)

func init() {
	metrics.Registry.MustRegister(sessionsGauge, eventsTotal)
	for _, phase := range []sandbarv1alpha1.DevSessionPhase{
		sandbarv1alpha1.DevSessionPending, sandbarv1alpha1.DevSessionReady, sandbarv1alpha1.DevSessionFailed, sandbarv1alpha1.DevSessionDeleting,
	} {
		sessionsGauge.WithLabelValues(string(phase))
	}
}

// counts count the DevSessions by phase. The zero value has none.
type counts struct {
	mu     sync.Mutex
	phases map[export.Key]sandbarv1alpha1.DevSessionPhase
}

func (c *counts) note(key export.Key, phase sandbarv1alpha1.DevSessionPhase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key)
	if c.phases == nil {
		c.phases = map[export.Key]sandbarv1alpha1.DevSessionPhase{}
	}
	c.phases[key] = phase
	sessionsGauge.WithLabelValues(string(phase)).Inc()
}

func (c *counts) drop(key export.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key)
}

func (c *counts) dropLocked(key export.Key) {
	if before, ok := c.phases[key]; ok {
		delete(c.phases, key)
		sessionsGauge.WithLabelValues(string(before)).Dec()
	}
}

// eventWriter writes events beside tenants' objects; *events.Recorder does.
type eventWriter interface {
	Write(ctx context.Context, key export.Key, event *corev1.Event, now time.Time)
}

// tell writes an event when a session takes the requests, or does not for another reason.
func (r *reconciler) tell(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession, status *sandbarv1alpha1.DevSessionStatus) {
	before, now := conditionOf(&obj.Status, sandbarv1alpha1.DevSessionReadyCondition), conditionOf(status, sandbarv1alpha1.DevSessionReadyCondition)
	if before.Status == now.Status && before.Reason == now.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if status.Phase == sandbarv1alpha1.DevSessionFailed || before.Status == metav1.ConditionTrue && status.Phase == sandbarv1alpha1.DevSessionPending {
		kind = corev1.EventTypeWarning
	}
	at := r.now()
	about := &corev1.ObjectReference{APIVersion: Kind.GVK().GroupVersion().String(), Kind: Kind.Name, Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID}
	r.events.Write(ctx, key, events.Build(about, kind, now.Reason, outcome.Shortened(now.Message, outcome.MaxMessage), at), at)
}
