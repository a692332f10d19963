// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// phase says in one word what the conditions say together. It adds what they do not tell: who
// was ready before is degraded, not failed, and who was suspended is waking.
func phase(s *scope, o outcome, old sandbarv1alpha1.InstanceStatus, v verdicts) sandbarv1alpha1.InstancePhase {
	cause := o.cause()
	switch {
	case o.deleting != "":
		return sandbarv1alpha1.InstanceDeleting
	case !v.placed.ok:
		return sandbarv1alpha1.InstancePending
	case o.composing != nil && v.composed.reason != reasonRuntimeError:
		if o.pods.ready > 0 && !v.suspended.ok {
			return sandbarv1alpha1.InstanceDegraded // what it was before the refused edit serves
		}
		return sandbarv1alpha1.InstanceFailed
	case v.suspended.ok:
		return suspendedPhase(s, v)
	case v.ready.ok:
		return sandbarv1alpha1.InstanceReady
	case cause != nil && cause.capacity, v.composed.reason == reasonQuota:
		return sandbarv1alpha1.InstancePendingCapacity
	case cause != nil && cause.failing, v.composed.reason == reasonGraphFailed:
		if wasReady(s, o, old) {
			return sandbarv1alpha1.InstanceDegraded
		}
		return sandbarv1alpha1.InstanceFailed
	case resuming(old):
		return sandbarv1alpha1.InstanceWaking
	case wasReady(s, o, old) && o.instance != nil && observed(o.instance):
		return sandbarv1alpha1.InstanceDegraded
	default:
		return sandbarv1alpha1.InstanceMaterializing
	}
}

func suspendedPhase(s *scope, v verdicts) sandbarv1alpha1.InstancePhase {
	cause, _ := s.intent()
	switch {
	case v.ready.reason == reasonPodScalingDown:
		return sandbarv1alpha1.InstanceSuspending
	case cause == sandbarv1alpha1.SuspendedUnused:
		return sandbarv1alpha1.InstanceSleeping
	default:
		return sandbarv1alpha1.InstanceSuspended
	}
}

// momentTime is how long an instance must have been ready to have been ready at all: without a
// readiness probe, a program that ends as soon as it begins is ready in between.
const momentTime = 10 * time.Second

// wasReady tells whether the instance has been ready with the spec that it has now. A changed
// spec begins anew: what it breaks has failed.
func wasReady(s *scope, o outcome, old sandbarv1alpha1.InstanceStatus) bool {
	if old.ObservedGeneration != s.object.GetGeneration() {
		return false
	}
	ready := meta.FindStatusCondition(old.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	return old.Phase == sandbarv1alpha1.InstanceDegraded ||
		old.Phase == sandbarv1alpha1.InstanceReady && ready != nil && o.now.Sub(ready.LastTransitionTime.Time) >= momentTime
}

// resuming tells whether the instance was suspended and has not become ready since.
func resuming(old sandbarv1alpha1.InstanceStatus) bool {
	return old.Phase == sandbarv1alpha1.InstanceWaking ||
		meta.IsStatusConditionTrue(old.Conditions, sandbarv1alpha1.InstanceSuspendedCondition)
}

// released tells whether an instance in this phase has no pods because it is suspended.
func released(phase sandbarv1alpha1.InstancePhase) bool {
	return phase == sandbarv1alpha1.InstanceSuspended || phase == sandbarv1alpha1.InstanceSleeping
}

// What outlives a suspension, in status.suspension.kept.
const (
	keptIdentity = "Identity" // name, URL, control token
	keptVolumes  = "Volumes"
)

// suspensionOf describes the suspension; nil while there is none.
func suspensionOf(s *scope, o outcome, old sandbarv1alpha1.InstanceStatus) *sandbarv1alpha1.InstanceSuspension {
	cause, suspended := s.intent()
	if !suspended {
		return nil
	}
	suspension := &sandbarv1alpha1.InstanceSuspension{Since: metav1.NewTime(o.now), Cause: cause, Kept: []string{keptIdentity}}
	if old.Suspension != nil {
		suspension.Since = old.Suspension.Since
	}
	if o.volumes || keepsVolumes(old) {
		suspension.Kept = append(suspension.Kept, keptVolumes)
	}
	return suspension
}

func keepsVolumes(old sandbarv1alpha1.InstanceStatus) bool {
	return old.Suspension != nil && slices.Contains(old.Suspension.Kept, keptVolumes)
}

// suspendedVerdict states what is meant, whether or not it has come about.
func suspendedVerdict(s *scope) verdict {
	cause, suspended := s.intent()
	if !suspended {
		return verdict{reason: reasonNotSuspended, message: "the instance is meant to run"}
	}
	return verdict{ok: true, reason: string(cause), message: suspensionMessages[cause]}
}

// suspensionMessages tell how each suspension ends.
var suspensionMessages = map[sandbarv1alpha1.SuspensionCause]string{
	sandbarv1alpha1.SuspendedByUser:  "set spec.suspended to false to resume",
	sandbarv1alpha1.SuspendedExpired: "its spec.lifecycle.shutdownTime has passed; set a later one to resume",
	sandbarv1alpha1.SuspendedUnused:  "nobody used it for spec.lifecycle.sleepAfterUnused; the next request wakes it",
}

// releasing tells whether a suspension is still coming about: there are pods, or kro has not
// seen yet that there should be none and may be making one.
func releasing(o outcome) bool {
	if o.pods.present+o.pods.releasing > 0 {
		return true
	}
	return o.composing == nil && o.instance != nil && !observed(o.instance)
}

// intent tells whether the instance is meant to have no pods, and on whose behalf. As long as
// that is not decided, because something fails or the instance is being deleted, it is what the
// tenant says or what was decided last.
func (s *scope) intent() (sandbarv1alpha1.SuspensionCause, bool) {
	if s.decided {
		return s.decision.suspended, s.decision.suspended != ""
	}
	if suspended(s.object) {
		return sandbarv1alpha1.SuspendedByUser, true
	}
	old, err := readStatus(s.object)
	if err != nil || old.Suspension == nil || old.Suspension.Cause == sandbarv1alpha1.SuspendedByUser {
		return "", false
	}
	return old.Suspension.Cause, true
}

// suspended reads the field that is reserved in every graph's spec.
func suspended(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
	return value
}
