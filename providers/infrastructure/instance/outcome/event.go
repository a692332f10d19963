// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Beginnings and bad: the bad phases are told as warnings; beginnings are how every instance begins, and
// worth no event.
var (
	bad        = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstanceFailed, sandbarv1alpha1.InstanceDegraded, sandbarv1alpha1.InstancePendingCapacity}
	Beginnings = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstancePending, sandbarv1alpha1.InstanceMaterializing}
)

// StartsHeldUp are reasons of Ready that are worth an event each time that an instance which has not started comes to have
// one.
var StartsHeldUp = []string{ReasonStartTimedOut, ReasonSecretsNotShared, ReasonEnvNotDelivered}

// BuildEvent builds an event about an instance, in words that its tenant may read.
func BuildEvent(s *scope.Scope, reason, message string, now time.Time) *corev1.Event {
	event := events.Build(&corev1.ObjectReference{
		APIVersion: s.Kind().GVK.GroupVersion().String(), Kind: s.Kind().GVK.Kind,
		Namespace: s.Object().GetNamespace(), Name: s.Object().GetName(), UID: s.Placement().Owner.UID,
	}, corev1.EventTypeNormal, reason, Shortened(toTenant(message), MaxMessage), now)
	if slices.Contains(bad, sandbarv1alpha1.InstancePhase(reason)) || slices.Contains(LossReasons, reason) || slices.Contains(StartsHeldUp, reason) ||
		reason == sandbarv1alpha1.StartResizeInfeasible {
		event.Type = corev1.EventTypeWarning
	}
	return event
}
