// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// statusOf reads what objects of all kinds have in their status. A status of another form has none of it.
func statusOf(obj *unstructured.Unstructured) sandbarv1alpha1.InstanceStatus {
	var status sandbarv1alpha1.InstanceStatus
	if fields, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return sandbarv1alpha1.InstanceStatus{}
		}
	}
	return status
}

// StateOf is the state of an object in words, which are safe for a terminal: for an instance those of
// [session.StateText].
func StateOf(obj *unstructured.Unstructured) string {
	if obj.GetDeletionTimestamp() != nil {
		return "being deleted"
	}
	status := statusOf(obj)
	return session.StateText(&status)
}

// Condition is a condition that an object is waited for.
type Condition struct {
	Type   string
	Status metav1.ConditionStatus
}

// Reached reports whether an object has a condition in its present generation. The error says that it does not come to
// it by itself.
func (c Condition) Reached(obj *unstructured.Unstructured) (bool, error) {
	status := statusOf(obj)
	found := apimeta.FindStatusCondition(status.Conditions, c.Type)
	// A condition may carry its own generation, and the status has one for all.
	observed := max(status.ObservedGeneration, observedOf(found))
	if observed != 0 && observed < obj.GetGeneration() {
		return false, nil
	}
	if found != nil && found.Status == c.Status {
		return true, nil
	}
	if c.Type == sandbarv1alpha1.InstanceReadyCondition && c.Status == metav1.ConditionTrue && status.Phase == sandbarv1alpha1.InstanceFailed {
		return false, fmt.Errorf("%s does not become Ready by itself: it is %s", termsafe.Line(obj.GetName()), session.StateText(&status))
	}
	return false, nil
}

func observedOf(condition *metav1.Condition) int64 {
	if condition == nil {
		return 0
	}
	return condition.ObservedGeneration
}
