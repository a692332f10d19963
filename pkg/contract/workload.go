// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"fmt"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Workload is the resource of a graph that a development component replaces a container of. Its
// maps and lists are the graph's own.
type Workload struct {
	// ID of the resource.
	ID string
	// Kind is Deployment or StatefulSet.
	Kind string
	// Spec is the workload's spec, Pod that of its pods.
	Spec, Pod map[string]any
	// Container is the component's container.
	Container map[string]any
}

// FindWorkload finds the workload of a component among the resources of a graph. The error says
// what the Template should say instead, with the field that says it now.
func FindWorkload(resources []any, name string, component *sandbarv1alpha1.DevelopmentComponent) (*Workload, *Problem) {
	field := "spec.development.components." + name
	w := &Workload{ID: cmp.Or(component.Workload, name)}
	var object map[string]any
	var ids []string
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		id, _ := resource["id"].(string)
		template, _ := resource["template"].(map[string]any)
		kind, _ := template["kind"].(string)
		if template["apiVersion"] != "apps/v1" || (kind != "Deployment" && kind != "StatefulSet") {
			continue
		}
		ids = append(ids, id)
		if id == w.ID {
			object, w.Kind = template, kind
		}
	}
	if object == nil {
		return nil, &Problem{field + ".workload", fmt.Sprintf(
			"the graph has no Deployment or StatefulSet (apps/v1) with the id %q; it has: %s", w.ID, namesOf(ids))}
	}
	w.Spec, _ = object["spec"].(map[string]any)
	template, _ := w.Spec["template"].(map[string]any)
	w.Pod, _ = template["spec"].(map[string]any)
	containers, _ := w.Pod["containers"].([]any)
	var names []string
	for i, c := range containers {
		container, _ := c.(map[string]any)
		containerName, _ := container["name"].(string)
		names = append(names, containerName)
		if container != nil && (component.Container == containerName || (component.Container == "" && i == 0)) {
			w.Container = container
		}
	}
	if w.Container == nil {
		return nil, &Problem{field + ".container", fmt.Sprintf(
			"the pods of %q have no container %q that the graph spells out; they have: %s", w.ID, component.Container, namesOf(names))}
	}
	return w, nil
}

// Port returns the number of one of the container's ports, or the expression that gives it.
func (w *Workload) Port(name string) (number any, names []string) {
	ports, _ := w.Container["ports"].([]any)
	for _, p := range ports {
		port, _ := p.(map[string]any)
		if portName, ok := port["name"].(string); ok {
			names = append(names, portName)
			if portName == name {
				number = port["containerPort"]
			}
		}
	}
	return number, names
}

func namesOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
