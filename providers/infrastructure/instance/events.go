// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const (
	// An instance may have eventBurst events at once and then one per eventInterval: what goes
	// to and fro must not fill its workspace.
	eventBurst    = 25
	eventInterval = time.Minute

	// maxTold bounds how many instances' rates are remembered; one that is forgotten starts
	// with a full burst.
	maxTold = 4096

	// A workspace that has not accepted the claim is asked again after deafTime; maxDeaf of
	// them are remembered.
	deafTime = 10 * time.Minute
	maxDeaf  = 8192

	// eventTimeout bounds how long an event may hold up its instance.
	eventTimeout = 2 * time.Second
)

// eventRecorder writes events into tenants' workspaces: what has become of an instance, for those who
// were not looking. An event that cannot be written is counted and left out; the status says
// the same.
type eventRecorder struct {
	record func(ctx context.Context, req request, event *corev1.Event) error
	rates  *lru.Cache[types.UID, *rate.Limiter]
	// deaf says when a workspace was last found not to have accepted the permission claim on events.
	deaf *lru.Cache[string, time.Time]
}

func newEventRecorder(record func(ctx context.Context, req request, event *corev1.Event) error) *eventRecorder {
	rates, _ := lru.New[types.UID, *rate.Limiter](maxTold) // fails only for a size below one
	deaf, _ := lru.New[string, time.Time](maxDeaf)
	return &eventRecorder{record: record, rates: rates, deaf: deaf}
}

// tell writes one event about the instance.
func (t *eventRecorder) tell(ctx context.Context, req request, s *scope.Scope, reason, message string, now time.Time) {
	fate := t.try(ctx, req, s, outcome.BuildEvent(s, reason, message, now), now)
	eventsTotal.WithLabelValues(fate).Inc()
}

// try returns the event's fate, as the metric names it.
func (t *eventRecorder) try(ctx context.Context, req request, s *scope.Scope, event *corev1.Event, now time.Time) string {
	if since, deaf := t.deaf.Get(req.Cluster); deaf && now.Sub(since) < deafTime {
		return "unclaimed"
	}
	limit := rate.NewLimiter(rate.Every(eventInterval), eventBurst)
	if known, ok, _ := t.rates.PeekOrAdd(s.Placement.Owner.UID, limit); ok {
		limit = known
	}
	if !limit.AllowN(now, 1) {
		return "limited"
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := t.record(ctx, req, event)
	switch {
	case err == nil:
		return "written"
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "failed"
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		t.deaf.Add(req.Cluster, now)
		return "unclaimed"
	}
	log.FromContext(ctx).V(1).Info("could not write an event", "reason", event.Reason, "error", err.Error())
	return "failed"
}

// deletionMessages tell why an instance that nobody deleted is deleted.
var deletionMessages = map[sandbarv1alpha1.SuspensionCause]string{
	sandbarv1alpha1.SuspendedExpired: "deleted: its spec.lifecycle.shutdownTime has passed",
	sandbarv1alpha1.SuspendedUnused:  "deleted: nobody used it for spec.lifecycle.deleteAfterUnused",
}

// tellPhase tells of a change of the phase.
func (r *reconciler) tellPhase(ctx context.Context, req request, s *scope.Scope, old, status sandbarv1alpha1.InstanceStatus) {
	if status.Phase == old.Phase || slices.Contains(outcome.Beginnings, status.Phase) {
		return
	}
	message := ""
	for _, condition := range status.Conditions {
		if condition.Type == sandbarv1alpha1.InstanceReadyCondition {
			message = condition.Message
		}
	}
	if status.Phase == sandbarv1alpha1.InstanceSuspending && status.Suspension != nil {
		message = string(status.Suspension.Cause) + ": " + outcome.SuspensionMessages[status.Suspension.Cause]
	}
	r.events.tell(ctx, req, s, string(status.Phase), message, r.now())
}
