// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"regexp"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
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

// GraphMessage is what kro says of the resources: the message of the condition that is false.
func GraphMessage(instance *unstructured.Unstructured) string {
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

// resourceDeleting is kro's reason for resources that wait for the end of one which is being deleted.
const resourceDeleting = "ResourceDeleting"

// BeingDeleted are the names of the graph's resources that kro finds being deleted.
func BeingDeleted(instance *unstructured.Unstructured) []string {
	condition, _ := graphCondition(instance, string(krov1alpha1.InstanceConditionTypeResourcesReady))
	if reason, _, _ := unstructured.NestedString(condition, "reason"); reason != resourceDeleting {
		return nil
	}
	message, _, _ := unstructured.NestedString(condition, "message")
	return namesOf(message)
}

// graphFailure is what a tenant is told of a graph that cannot be composed. What the runtime cluster
// refuses of it is the tenant's to correct, mostly; kro's own words are about expressions that the
// tenant has not written and cannot see. The log has them.
func graphFailure(template, message string) string {
	if why, found := refusedPart(message); found {
		return "the runtime cluster refuses a part of the instance: " + Detail(why) + "; correct the spec"
	}
	return "the Template " + template + " cannot be composed with this spec, and the operator has to correct it; " +
		"nothing but another spec may help meanwhile"
}

// nodes finds the names of the graph's resources in a message of kro's.
var nodes = regexp.MustCompile(`(?:node|external reference) "([A-Za-z0-9]{1,63})"`)

// graphProgress says which of the graph's resources are waited for, and nothing of how that is found
// out.
func graphProgress(message string) string {
	waiting := namesOf(message)
	if len(waiting) == 0 {
		return "the resources are being made"
	}
	return "the resources are being made; not ready yet: " + strings.Join(waiting, ", ")
}

// namesOf are the names of the graph's resources in a message of kro's, in order.
func namesOf(message string) []string {
	var names []string
	for _, match := range nodes.FindAllStringSubmatch(message, -1) {
		names = append(names, revision.Plain(match[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
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
func withGraphFields(own map[string]any, s *scope.Scope, instance *unstructured.Unstructured) map[string]any {
	if instance == nil {
		return own
	}
	fields, _, _ := unstructured.NestedMap(instance.Object, "status") // a copy
	for _, path := range contract.RefPaths(s.DataPlane()) {
		removePath(fields, strings.Split(strings.TrimPrefix(path, "status."), "."))
	}
	for name, value := range fields {
		if !slices.Contains(contract.ReservedStatusFields, name) {
			own[name] = value
		}
	}
	return own
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
