// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Reasons of the other conditions, beside those that the part has.
const (
	reasonPending   = "ResourcesPending"
	reasonRendered  = "Rendered"
	reasonNoRouting = "NoRouting"
	reasonReady     = "WorkloadsReady"
)

// told is what the status of the part with the copies says.
type told struct {
	sandbarv1alpha1.InstanceStatus
	sandbarv1alpha1.SandboxGroupStatus

	// current: it speaks of the part's spec as it is now.
	current bool
}

func toldBy(part *unstructured.Unstructured) (t told, err error) {
	if part == nil {
		return t, nil
	}
	fields, _ := part.Object["status"].(map[string]any)
	if t.InstanceStatus, err = outcome.StatusOf(fields); err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &t.SandboxGroupStatus)
	}
	if err != nil {
		return t, fmt.Errorf("reading the status of the part: %w", err)
	}
	t.current = part.GetDeletionTimestamp() == nil && t.ObservedGeneration == part.GetGeneration()
	return t, nil
}

// condition is a condition of the part's; one without a status if it has none.
func (t told) condition(name string) metav1.Condition {
	if c := meta.FindStatusCondition(t.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{Type: name}
}

// false reports whether the part says of a condition that it is not so.
func (t told) isFalse(name string) (c metav1.Condition, is bool) {
	c = t.condition(name)
	return c, t.current && c.Status == metav1.ConditionFalse
}

// RollUp is the whole status of a compound instance.
func RollUp(l Look) (map[string]any, error) {
	t, err := toldBy(l.Copies.Part)
	if err != nil {
		return nil, err
	}
	r, err := toldByRoute(l.Route.Part)
	if err != nil {
		return nil, err
	}
	v := judge(l, t, r)
	status := sandbarv1alpha1.InstanceStatus{
		ObservedGeneration: l.Object.GetGeneration(),
		Phase:              phase(l, t, r, v),
		Activity:           t.Activity,
		DataPlane:          l.DataPlane,
		Suspension:         suspension(l, t),
		Conditions:         v.conditions(l),
	}
	if l.Copies.Unseen {
		status.Activity = l.Old.Activity
	}
	if name := l.Object.GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]; name != "" {
		status.CreatedBy = &sandbarv1alpha1.InstanceCreator{Username: name}
	}
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	rolled, err := rolledUp(l, t, r)
	if err != nil {
		return nil, err
	}
	more, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rolled)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the workloads: %w", err)
	}
	maps.Copy(own, more)
	return own, nil
}

// rolledUp is what there is of the workloads and of the requests that are led to them. What a part does not tell now stays as it has
// told it last.
func rolledUp(l Look, t told, r toldOfRoute) (status sandbarv1alpha1.SandboxWorkloadsStatus, err error) {
	var before sandbarv1alpha1.SandboxWorkloadsStatus
	fields, _ := l.Object.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &before); err != nil {
		return status, fmt.Errorf("reading the status of the workloads: %w", err)
	}
	var refs, were sandbarv1alpha1.SandboxUnderlyingRefs
	if before.UnderlyingRefs != nil {
		were = *before.UnderlyingRefs
	}
	switch {
	case l.Copies.Unseen:
		status.RoutingKey, status.Workloads, refs.SandboxGroupName = before.RoutingKey, before.Workloads, were.SandboxGroupName
	default:
		status.RoutingKey, status.Workloads = routingKey(l, t), workloadsOf(l, t)
		if l.Copies.Part != nil {
			refs.SandboxGroupName = l.Copies.Part.GetName()
		}
	}
	switch {
	case l.Route.Unseen:
		status.Endpoints, refs.SandboxRouteName = before.Endpoints, were.SandboxRouteName
	case l.Route.Part != nil, l.Route.Wanted && l.Route.OK: // of the latter it was created a moment ago
		status.Endpoints, refs.SandboxRouteName = endpointsOf(r), l.Object.GetName()
	}
	if refs != (sandbarv1alpha1.SandboxUnderlyingRefs{}) {
		status.UnderlyingRefs = &refs
	}
	return status, nil
}

// routingKey is what a request has to carry to be led to the copies; nil while the part has no ID.
func routingKey(l Look, t told) *sandbarv1alpha1.RoutingKey {
	if t.SandboxID == "" {
		return nil
	}
	routing, _, _ := unstructured.NestedMap(l.Object.Object, "spec", l.Routing)
	return &sandbarv1alpha1.RoutingKey{HeaderName: strings.ToLower(headerOf(routing)), Value: t.SandboxID}
}

func workloadsOf(l Look, t told) (rows []sandbarv1alpha1.SandboxWorkloadStatus) {
	for _, name := range workloads(l) {
		row := sandbarv1alpha1.SandboxWorkloadStatus{Name: name}
		if c := t.component(name); c != nil {
			row.Ready, row.Replicas, row.Image = c.Ready, c.Replicas, c.Image
		}
		rows = append(rows, row)
	}
	return rows
}

func (t told) component(name string) *sandbarv1alpha1.SandboxGroupComponentStatus {
	at := slices.IndexFunc(t.Components, func(c sandbarv1alpha1.SandboxGroupComponentStatus) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &t.Components[at]
}

// workloads are the names of those that the spec has.
func workloads(l Look) []string { return scope.NamesIn(l.Object, l.From) }
