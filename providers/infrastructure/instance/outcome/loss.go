// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Reasons of a loss: of Placed and of Composed, of the condition Lost, and of the event.
const (
	ReasonPlacementLost = "PlacementLost"
	ReasonResourcesLost = "ResourcesLost"
	ReasonSnapshotsLost = "SnapshotsLost"
)

// LossReasons are the reasons of a loss.
var LossReasons = []string{ReasonPlacementLost, ReasonResourcesLost, ReasonSnapshotsLost}

// LossError is the error of placing or composing when somebody has deleted, on the runtime cluster, what an
// instance had there. The provider creates it again, with empty volumes or of other versions of workloads; without these words the tenant
// would see an instance that is Ready and has forgotten everything.
type LossError struct {
	Reason, Message string
	// first: the status does not say so yet.
	First bool
}

func (l *LossError) Error() string { return l.Message }

func newLoss(reason, what string, first bool) *LossError {
	return &LossError{Reason: reason, First: first, Message: "the instance's " + what + " deleted on the runtime cluster, " +
		"neither by you nor by the provider. What its volumes held may be gone. The provider creates everything again; " +
		"the operator can see in the audit log of that cluster who deleted it"}
}

// LostPlacement is the loss of a placement's namespace.
func LostPlacement() error { return newLoss(ReasonPlacementLost, "namespace was", true) }

// LostResources is the loss of the kro instance.
func LostResources(first bool) error { return newLoss(ReasonResourcesLost, "resources were", first) }

// LostSnapshots is the loss of what an instance keeps of the workloads that its copies are of. The copies are there: they are
// made of the workloads as they are now.
func LostSnapshots() error {
	return &LossError{Reason: ReasonSnapshotsLost, First: true, Message: "what the instance keeps of its workloads was deleted on the runtime cluster, " +
		"neither by you nor by the provider. The provider freezes the workloads again, as they are now, so that copies may change to another version; " +
		"the operator can see in the audit log of that cluster who deleted it"}
}

// LossOf is the loss in an error; nil if there is none.
func LossOf(err error) *LossError {
	var lost *LossError
	_ = errors.As(err, &lost)
	return lost
}

// ReasonsOfComposed are those reasons of Composed that an instance has only when its kro instance exists.
// A reason that it can have without one, as it was refused before, is not here: nobody may be accused of
// having deleted what never was.
var ReasonsOfComposed = []string{
	reasonComposed, ReasonComposing, ReasonNotComposing, ReasonGraphFailed, ReasonBeingDeleted,
	ReasonImage, ReasonProviderImage, reasonNotStartable, ReasonCrashLoop, reasonUnready, reasonPodFailed, reasonNoRoom,
	ReasonVolume, reasonNoSandbox, reasonNode, reasonStorageClass, ReasonSnapshotsLost,
}

// WasComposed reports whether the status tells that there was a kro instance.
func WasComposed(old sandbarv1alpha1.InstanceStatus) bool {
	return meta.IsStatusConditionTrue(old.Conditions, sandbarv1alpha1.InstancePlaced) &&
		(slices.Contains(ReasonsOfComposed, ConditionReason(old, sandbarv1alpha1.InstanceComposed)) ||
			old.Phase == sandbarv1alpha1.InstanceDegraded) // its changed spec is refused
}

// ConditionReason returns the reason of a condition; empty if the status does not have it.
func ConditionReason(status sandbarv1alpha1.InstanceStatus, name string) string {
	if c := meta.FindStatusCondition(status.Conditions, name); c != nil {
		return c.Reason
	}
	return ""
}

// lostCondition is the trace of a loss. It stays until the spec changes: who looks at the instance only
// hours later finds it Ready again.
func lostCondition(s *scope.Scope, old sandbarv1alpha1.InstanceStatus, o Outcome) []metav1.Condition {
	if o.Lost != nil {
		c := Verdict{OK: true, Reason: o.Lost.Reason, message: o.Lost.Message}.condition(sandbarv1alpha1.InstanceLostCondition)
		c.ObservedGeneration, c.LastTransitionTime = s.Object().GetGeneration(), metav1.NewTime(o.Now)
		return []metav1.Condition{c}
	}
	before := meta.FindStatusCondition(old.Conditions, sandbarv1alpha1.InstanceLostCondition)
	if before == nil || !s.Seen(before.ObservedGeneration) {
		return nil
	}
	kept := *before
	kept.ObservedGeneration = s.Object().GetGeneration()
	return []metav1.Condition{kept}
}

// stillLost keeps the words of a loss until the placement is there again.
func stillLost(placed Verdict, old sandbarv1alpha1.InstanceStatus) Verdict {
	before := meta.FindStatusCondition(old.Conditions, sandbarv1alpha1.InstancePlaced)
	if placed.Reason == reasonTerminating && before != nil && before.Reason == ReasonPlacementLost {
		return Verdict{Reason: before.Reason, message: before.Message}
	}
	return placed
}
