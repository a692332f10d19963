// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// observed tells whether kro's status speaks of the instance's present spec. Without this
// check an instance whose spec just changed would still be called ready. A graph that declares
// conditions of its own may hide kro's; then its state is all there is to go by.
func observed(instance *unstructured.Unstructured) bool {
	generation := instance.GetGeneration()
	ready, found := graphCondition(instance, string(krov1alpha1.InstanceConditionTypeReady))
	if !found {
		_, hasState, _ := unstructured.NestedString(instance.Object, "status", "state")
		return hasState
	}
	seen, found, _ := unstructured.NestedInt64(ready, "observedGeneration")
	return !found || seen == generation
}

// graphMessage is what kro says of the resources: the message of the condition that is false.
func graphMessage(instance *unstructured.Unstructured) string {
	for _, name := range []krov1alpha1.ConditionType{
		krov1alpha1.InstanceConditionTypeResourcesReady,
		krov1alpha1.InstanceConditionTypeGraphResolved,
		krov1alpha1.InstanceConditionTypeInstanceManaged,
		krov1alpha1.InstanceConditionTypeReady,
	} {
		condition, found := graphCondition(instance, string(name))
		status, _, _ := unstructured.NestedString(condition, "status")
		message, _, _ := unstructured.NestedString(condition, "message")
		if found && status != string(metav1.ConditionTrue) && message != "" {
			return message
		}
	}
	return "the resources are being made"
}

func graphCondition(instance *unstructured.Unstructured, name string) (map[string]any, bool) {
	list, _, _ := unstructured.NestedSlice(instance.Object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["type"] == name {
			return condition, true
		}
	}
	return nil, false
}

// withGraphFields adds the graph's own status fields. What the contract refers to stays
// private, and what is Sandbar's or kro's own is not taken from a graph.
func withGraphFields(own map[string]any, s *scope, instance *unstructured.Unstructured) map[string]any {
	if instance == nil {
		return own
	}
	fields, _, _ := unstructured.NestedMap(instance.Object, "status") // a copy
	for _, path := range contract.RefPaths(&s.dataPlane) {
		removePath(fields, strings.Split(strings.TrimPrefix(path, "status."), "."))
	}
	for name, value := range fields {
		if !slices.Contains(notOfTheGraph, name) {
			own[name] = value
		}
	}
	return own
}

var notOfTheGraph = []string{
	"state", "conditions", // kro's
	"observedGeneration", "phase", "dataPlane", "activity", "suspension", // Sandbar's
}

// removePath removes a field and the parents that it leaves empty.
func removePath(fields map[string]any, path []string) {
	if len(path) > 1 {
		child, ok := fields[path[0]].(map[string]any)
		if !ok {
			return
		}
		removePath(child, path[1:])
		if len(child) > 0 {
			return
		}
	}
	delete(fields, path[0])
}
