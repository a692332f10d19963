// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// StateChanged is the [Note] that an instance, which is waited for, is in another state.
type StateChanged struct {
	Name string
	UID  types.UID
	// Text is that of [StateText].
	Text string
}

func (StateChanged) isNote() {}

// StateText is the state of an instance in words: its phase, and the message of its condition Ready, both of which are safe
// for a terminal; the message may have several lines. An instance without a phase is Pending.
func StateText(status *sandbarv1alpha1.InstanceStatus) string {
	state := string(sandbarv1alpha1.InstancePending)
	if status.Phase != "" {
		state = termsafe.Line(string(status.Phase))
	}
	if ready := readyOf(status); ready != nil && ready.Message != "" {
		state += ": " + termsafe.String(ready.Message)
	}
	return state
}

func readyOf(status *sandbarv1alpha1.InstanceStatus) *metav1.Condition {
	return apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
}

// missingImage is why a SandboxRunner has no image for its toolchain; empty if it has one. Waiting does not
// help: it is for the person to choose another, or to ask the operator.
func missingImage(status *sandbarv1alpha1.InstanceStatus, generation int64) string {
	composed := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceComposed)
	if status.ObservedGeneration != generation || composed == nil || composed.Reason != "ImageMissing" {
		return ""
	}
	return termsafe.String(composed.Message)
}
