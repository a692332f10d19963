// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Suspension says why a runtime instance has no pods; empty when it is meant to have some. What is
// suspended without a word is so by its tenant: nothing is woken that does not say that it sleeps.
func Suspension(instance *unstructured.Unstructured) sandbarv1alpha1.SuspensionCause {
	if spec, _ := instance.Object["spec"].(map[string]any); spec["suspended"] != true {
		return ""
	}
	metadata, _ := instance.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	cause, _ := annotations[placement.AnnotationSuspension].(string)
	switch cause := sandbarv1alpha1.SuspensionCause(cause); cause {
	case sandbarv1alpha1.SuspendedUnused, sandbarv1alpha1.SuspendedExpired:
		return cause
	case sandbarv1alpha1.SuspendedByUser:
	}
	return sandbarv1alpha1.SuspendedByUser
}

// FellAsleep reports whether an instance is suspended by now that was not when it was looked at.
func FellAsleep(at *locate.Place) bool {
	now := at.Kind.Instances.Get(at.ID.Namespace(), at.Instance.GetName())
	return now != nil && Suspension(now) != ""
}

// Refused refuses what does not wake an instance.
func Refused(cause sandbarv1alpha1.SuspensionCause) *refusal.Error {
	e := &refusal.Error{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	if cause == sandbarv1alpha1.SuspendedExpired {
		e.Cause = refusal.CauseExpired
		e.Message = "the instance's time is over: set a later spec.lifecycle.shutdownTime to have it back"
	} else {
		e.Cause = refusal.CauseSuspended
		e.Message = "the instance is suspended by its tenant: set its spec.suspended to false, or run sandbar resume, to resume it"
	}
	return e
}
