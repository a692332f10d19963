// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Reasons of the events about a start.
const (
	eventStartedWarm = "StartedWarm"
	eventStartedCold = "StartedCold"
	eventResized     = "Resized"
)

// tell writes an event about an instance.
func (r *reconciler) tell(ctx context.Context, req request, s *scope.Scope, reason, message string) {
	now := r.now()
	r.events.Write(ctx, req, outcome.BuildEvent(s, reason, message, now), now)
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
	r.tell(ctx, req, s, string(status.Phase), message)
}

// tellStart tells how an instance has started that a set might have kept ready, once, and what holds that up.
func (r *reconciler) tellStart(ctx context.Context, req request, s *scope.Scope, old, status sandbarv1alpha1.InstanceStatus) {
	switch start := status.Start; {
	case start == nil || old.Start != nil:
	case start.Type == sandbarv1alpha1.StartWarm && start.Set != nil:
		r.tell(ctx, req, s, eventStartedWarm, "it took a sandbox that SandboxSet "+start.Set.Name+" had ready")
	case start.Type == sandbarv1alpha1.StartCold && start.Reason != "":
		r.tell(ctx, req, s, eventStartedCold, start.Reason+": its sandbox is made for it")
	}
	if old.Start == nil {
		r.tellResize(ctx, req, s, status.Start)
	}
	ready := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	if ready != nil && slices.Contains(outcome.StartsHeldUp, ready.Reason) && outcome.ConditionReason(old, sandbarv1alpha1.InstanceReadyCondition) != ready.Reason {
		r.tell(ctx, req, s, ready.Reason, ready.Message)
	}
}

// tellResize writes the event about the resources of the sandbox that an instance has taken.
func (r *reconciler) tellResize(ctx context.Context, req request, s *scope.Scope, start *sandbarv1alpha1.InstanceStart) {
	switch {
	case start == nil || start.Type != sandbarv1alpha1.StartWarm:
	case start.Resized != nil:
		r.tell(ctx, req, s, eventResized, fmt.Sprintf("without a restart, from %s to %s", inWords(start.Resized.From), inWords(start.Resized.To)))
	case start.Reason == sandbarv1alpha1.StartResizeInfeasible:
		r.tell(ctx, req, s, sandbarv1alpha1.StartResizeInfeasible, "it has the resources of its SandboxSet, since its node could not give it those of its template; spec.resize is BestEffort")
	}
}

// inWords are resources for people: requests, and limits after them.
func inWords(of sandbarv1alpha1.InstanceResources) string {
	var words []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := of.Requests[name], of.Limits[name]
		words = append(words, fmt.Sprintf("%s %s (limit %s)", name, request.String(), limit.String()))
	}
	return strings.Join(words, ", ")
}
