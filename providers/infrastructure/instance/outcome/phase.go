// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// phase says in one word what the conditions say together. It adds what they do not tell: who
// was ready before is degraded, not failed, and who was suspended is waking.
func phase(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus, v verdicts) sandbarv1alpha1.InstancePhase {
	cause := o.Cause()
	switch {
	case o.Deleting != "":
		return sandbarv1alpha1.InstanceDeleting
	case v.placed.Reason == ReasonWorkspaceLimit, v.placed.Reason == ReasonPlacementsLimit:
		return sandbarv1alpha1.InstancePendingCapacity
	case startOfPlacing(o) != nil && startOfPlacing(o).Failed, v.ready.Reason == ReasonStartTimedOut:
		return sandbarv1alpha1.InstanceFailed
	case !v.placed.OK:
		return sandbarv1alpha1.InstancePending
	case o.Composing != nil && v.composed.Reason != ReasonRuntimeError && LossOf(o.Composing) == nil:
		if o.Pods.Ready > 0 && !v.suspended.OK {
			return sandbarv1alpha1.InstanceDegraded // what it was before the refused edit serves
		}
		return refusedPhase(s, o, old, v)
	case v.suspended.OK:
		return suspendedPhase(s, o, v)
	case v.ready.OK:
		return sandbarv1alpha1.InstanceReady
	case cause != nil && cause.capacity, v.composed.Reason == ReasonQuota:
		return sandbarv1alpha1.InstancePendingCapacity
	case cause != nil && cause.failing, v.composed.Reason == ReasonGraphFailed:
		if wasReady(s, o, old) {
			return sandbarv1alpha1.InstanceDegraded
		}
		return sandbarv1alpha1.InstanceFailed
	case resuming(old):
		return sandbarv1alpha1.InstanceWaking
	case o.Turn.updates():
		return sandbarv1alpha1.InstanceMaterializing
	case wasReady(s, o, old) && o.Instance != nil && observed(o.Instance):
		return sandbarv1alpha1.InstanceDegraded
	default:
		return sandbarv1alpha1.InstanceMaterializing
	}
}

// refusedPhase is that of an instance whose spec is refused, and of which nothing serves. One that was composed before
// is suspended and resumed with what it had.
func refusedPhase(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus, v verdicts) sandbarv1alpha1.InstancePhase {
	composed, cause := o.Instance != nil, o.Cause()
	switch {
	case composed && v.suspended.OK:
		return suspendedPhase(s, o, v)
	case v.composed.Reason == ReasonQuota:
		return sandbarv1alpha1.InstancePendingCapacity
	case composed && resuming(old) && (cause == nil || !cause.failing):
		return sandbarv1alpha1.InstanceWaking
	default:
		return sandbarv1alpha1.InstanceFailed
	}
}

func suspendedPhase(s *scope.Scope, o Outcome, v verdicts) sandbarv1alpha1.InstancePhase {
	cause, _ := o.Intent(s)
	switch {
	case v.ready.Reason == ReasonPodScalingDown:
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
func wasReady(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus) bool {
	if !s.Seen(old.ObservedGeneration) {
		return false
	}
	ready := meta.FindStatusCondition(old.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	return old.Phase == sandbarv1alpha1.InstanceDegraded ||
		old.Phase == sandbarv1alpha1.InstanceReady && ready != nil && o.Now.Sub(ready.LastTransitionTime.Time) >= momentTime
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
	KeptVolumes  = "Volumes"
)

// suspensionOf describes the suspension; nil while there is none.
func suspensionOf(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus) *sandbarv1alpha1.InstanceSuspension {
	cause, suspended := o.Intent(s)
	if !suspended {
		return nil
	}
	suspension := &sandbarv1alpha1.InstanceSuspension{Since: metav1.NewTime(o.Now), Cause: cause, Kept: []string{keptIdentity}}
	if old.Suspension != nil {
		suspension.Since = old.Suspension.Since
	}
	if o.Volumes || KeepsVolumes(old) {
		suspension.Kept = append(suspension.Kept, KeptVolumes)
	}
	return suspension
}

// KeepsVolumes reports whether the status says that a suspension keeps volumes.
func KeepsVolumes(old sandbarv1alpha1.InstanceStatus) bool {
	return old.Suspension != nil && slices.Contains(old.Suspension.Kept, KeptVolumes)
}

// suspendedVerdict states what is meant, whether or not it has come about.
func suspendedVerdict(s *scope.Scope, o Outcome) Verdict {
	cause, suspended := o.Intent(s)
	if !suspended {
		return Verdict{Reason: ReasonNotSuspended, message: "the instance is meant to run"}
	}
	return Verdict{OK: true, Reason: string(cause), message: SuspensionMessages[cause]}
}

// SuspensionMessages tell how each suspension ends.
var SuspensionMessages = map[sandbarv1alpha1.SuspensionCause]string{
	sandbarv1alpha1.SuspendedByUser:  "set spec.suspended to false, or run sandbar resume, to resume",
	sandbarv1alpha1.SuspendedExpired: "its spec.lifecycle.shutdownTime has passed; set a later one to resume",
	sandbarv1alpha1.SuspendedUnused:  "nobody used it for spec.lifecycle.sleepAfterUnused; the next request wakes it",
}

// releasing reports whether a suspension is still coming about: there are pods, or kro has not seen yet
// that there should be none and may be making one. It makes none for an instance that was suspended
// before, or from the start.
func releasing(o Outcome, old sandbarv1alpha1.InstanceStatus) bool {
	if o.Pods.Present+o.Pods.releasing > 0 {
		return true
	}
	ranBefore := old.Phase != "" && !released(old.Phase)
	return ranBefore && o.Composing == nil && o.Instance != nil && !observed(o.Instance)
}

// releaseMessage says what a suspension waits for.
func releaseMessage(o Outcome) string {
	if o.Pods.stuck {
		return "the pods are being released; the node of one does not answer, which the operator has to see to"
	}
	return "the pods are being released"
}

// Intent tells whether the instance is meant to have no pods, and on whose behalf. As long as
// that is not decided, because something fails or the instance is being deleted, it is what the
// tenant says or what was decided last.
func (o Outcome) Intent(s *scope.Scope) (sandbarv1alpha1.SuspensionCause, bool) {
	if o.Plan.Decided {
		return o.Plan.Suspended, o.Plan.Suspended != ""
	}
	if lifecycle.Suspended(s.Object()) {
		return sandbarv1alpha1.SuspendedByUser, true
	}
	old := s.Status()
	if old.Suspension == nil || old.Suspension.Cause == sandbarv1alpha1.SuspendedByUser {
		return "", false
	}
	return old.Suspension.Cause, true
}
