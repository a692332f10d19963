// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// NotSuspendableError means that a kind has no field spec.suspended.
type NotSuspendableError struct{ Kind string }

// Error implements error.
func (e *NotSuspendableError) Error() string {
	return fmt.Sprintf("a %s cannot be suspended: it has no field spec.suspended", e.Kind)
}

// ExpiredError means that an instance stays suspended because its shutdown time has passed.
type ExpiredError struct{ Name string }

// Error implements error.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the shutdown time of %s has passed: set a later spec.lifecycle.shutdownTime to have it back", e.Name)
}

// SetSuspended sets spec.suspended of an instance, and returns the instance with whether that has changed it. If a version is
// named, the instance has to have it: else the error is a [ConflictError]. That of a kind without the field is a
// [NotSuspendableError].
func (c *Client) SetSuspended(ctx context.Context, k Kind, namespace, name string, suspended bool, version string) (obj *unstructured.Unstructured, changed bool, err error) {
	obj, err = c.of(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("reading %s %s: %w", k.Resource.Resource, name, err)
	}
	if isSuspended(obj) == suspended && (version == "" || version == obj.GetResourceVersion()) {
		return obj, false, nil
	}
	obj.SetNamespace(namespace)
	k.Name = obj.GetKind()
	obj, err = c.Patch(ctx, k, obj, map[string]any{"spec": map[string]any{"suspended": suspended}}, WriteOptions{Version: version, DropUnknown: true})
	if err != nil {
		return nil, false, err
	}
	// A field that the kind does not have is dropped without an error.
	if isSuspended(obj) != suspended {
		return obj, false, &NotSuspendableError{Kind: obj.GetKind()}
	}
	return obj, true, nil
}

func isSuspended(obj *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
	return suspended
}

// Suspension is what an instance is waited for: that it is suspended, or that it is awake.
type Suspension bool

// The two that there are.
const (
	Suspended Suspension = true
	Awake     Suspension = false
)

// Reached reports whether an instance is suspended or awake in its present generation. One that sleeps is awake: the next
// request wakes it; so is one that is Degraded: it serves with what it had before its spec was refused. The error, an [ExpiredError], says that it does not come to it by itself.
func (s Suspension) Reached(obj *unstructured.Unstructured) (bool, error) {
	status := statusOf(obj)
	if status.ObservedGeneration != obj.GetGeneration() {
		return false, nil
	}
	if s == Suspended {
		return status.Phase == sandbarv1alpha1.InstanceSuspended, nil
	}
	meant := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceSuspendedCondition)
	if meant != nil && meant.Status == metav1.ConditionTrue && meant.Reason == string(sandbarv1alpha1.SuspendedExpired) {
		return false, &ExpiredError{Name: obj.GetName()}
	}
	serves := status.Phase == sandbarv1alpha1.InstanceSleeping || status.Phase == sandbarv1alpha1.InstanceDegraded
	return serves || apimeta.IsStatusConditionTrue(status.Conditions, sandbarv1alpha1.InstanceReadyCondition), nil
}
