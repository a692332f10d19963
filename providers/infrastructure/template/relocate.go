// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// relocated is a graph as kro gets it from a provider that has a name on the runtime cluster: its kind is of the
// provider's own group, and it reads the values that this provider's operator has set. Authors always write sandbar.dev
// and sandbar-system, so that a Template serves any provider. Without this, two providers with a
// Template of one kind would take the kind from each other, and each would compose with the other's images.
func relocated(names placement.Names, graph map[string]any) map[string]any {
	if names == (placement.Names{}) {
		return graph
	}
	graph = runtime.DeepCopyJSON(graph)
	if schema, ok := graph["schema"].(map[string]any); ok {
		schema["group"] = names.Group()
	}
	resources, _ := graph["resources"].([]any)
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		ref, _ := resource["externalRef"].(map[string]any)
		if metadata, _ := ref["metadata"].(map[string]any); metadata["namespace"] == placement.SystemNamespace {
			metadata["namespace"] = names.SystemNamespace()
		}
	}
	return graph
}

// ours is a Template's graph as kro gets it.
func (r *reconciler) ours(graph map[string]any) map[string]any { return relocated(r.names, graph) }
