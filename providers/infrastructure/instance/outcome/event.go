// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Beginnings and bad: the bad phases are told as warnings; beginnings are how every instance begins, and
// worth no event.
var (
	bad        = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstanceFailed, sandbarv1alpha1.InstanceDegraded, sandbarv1alpha1.InstancePendingCapacity}
	Beginnings = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstancePending, sandbarv1alpha1.InstanceMaterializing}
)

// BuildEvent builds an event about an instance, in words that its tenant may read.
func BuildEvent(s *scope.Scope, reason, message string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Object.GetNamespace(), GenerateName: EventNamePrefix(s.Object.GetName())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: s.GVK.GroupVersion().String(), Kind: s.GVK.Kind,
			Namespace: s.Object.GetNamespace(), Name: s.Object.GetName(), UID: s.Placement.Owner.UID,
		},
		Type: corev1.EventTypeNormal, Reason: reason, Message: Shortened(toTenant(message), MaxMessage),
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "sandbar"}, ReportingController: "sandbar.dev/provider",
	}
	event.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	if slices.Contains(bad, sandbarv1alpha1.InstancePhase(reason)) || slices.Contains(LossReasons, reason) {
		event.Type = corev1.EventTypeWarning
	}
	return event
}

// EventNamePrefix leaves room for the suffix that the API server makes: an instance's name may be
// as long as a name can be.
func EventNamePrefix(name string) string {
	const most = 200
	return name[:min(len(name), most)] + "."
}
