// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// Reasons of the events of a set.
const (
	eventInvalid = "Invalid"
	eventFailing = "MemberFailing"
	eventLimited = "ScalingLimited"
)

var eventsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "sandbar_set_events_total",
	Help: "Events about SandboxSets by outcome (written, unclaimed: the workspace has not accepted the claim, limited, failed).",
}, []string{"outcome"})

func init() { metrics.Registry.MustRegister(eventsTotal) }

// tell writes events about what has become worse in a set.
func (r *reconciler) tell(ctx context.Context, key export.Key, set *sandbarv1alpha1.SandboxSet, status *sandbarv1alpha1.SandboxSetStatus) {
	about := &corev1.ObjectReference{APIVersion: Kind.GVK().GroupVersion().String(), Kind: Kind.Name, Namespace: set.Namespace, Name: set.Name, UID: set.UID}
	warn := func(reason, message string) {
		now := r.now()
		r.events.Write(ctx, key, events.Build(about, corev1.EventTypeWarning, reason, outcome.Shortened(message, outcome.MaxMessage), now), now)
	}
	if c, is := turned(set.Status.Conditions, status.Conditions, sandbarv1alpha1.SandboxSetValid, metav1.ConditionFalse); is {
		warn(eventInvalid, c.Reason+": "+c.Message)
	}
	for _, p := range status.Problems {
		former := func(f sandbarv1alpha1.SandboxSetProblem) bool { return f.Reason == p.Reason }
		if waits := p.Reason == reasonNoRoom || p.Reason == reasonQuota; !waits && !slices.ContainsFunc(set.Status.Problems, former) {
			warn(eventFailing, fmt.Sprintf("%d of %d: %s: %s", p.Count, status.Replicas, p.Reason, p.Message))
		}
	}
	if c, is := turned(set.Status.Conditions, status.Conditions, sandbarv1alpha1.SandboxSetScalingLimited, metav1.ConditionTrue); is && c.Reason != reasonInvalid {
		warn(eventLimited, c.Reason+": "+c.Message)
	}
}

// turned reports whether a condition has a status that it did not have, or has it for another reason.
func turned(before, after []metav1.Condition, name string, status metav1.ConditionStatus) (c *metav1.Condition, is bool) {
	was := meta.FindStatusCondition(before, name)
	c = meta.FindStatusCondition(after, name)
	return c, c.Status == status && (was == nil || was.Status != status || was.Reason != c.Reason)
}
