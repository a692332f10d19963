// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Name is that of the canary's instance, and of the Service that kro makes. Its ResourceGraphDefinition has it too, unless the
// provider has a name on the runtime cluster (placement.Names).
const Name = "sandbar-canary"

const (
	// annotationBeat carries the beat on the Service.
	annotationBeat = "sandbar.dev/beat"
	// annotationVersion tells the graph of this program from that of another version. Change version
	// with the graph.
	annotationVersion = "sandbar.dev/canary-version"
	version           = "1"
)

const (
	kind     = "SandbarCanary"
	resource = "sandbarcanaries"
)

// versionOf is the group and version of a provider's canary: each has one of its own, with a graph of its own.
func versionOf(names placement.Names) schema.GroupVersion {
	return schema.GroupVersion{Group: names.Group(), Version: "v1alpha1"}
}

// graph is the canary's ResourceGraphDefinition. A Service without an address and without pods is
// the least that kro's rights for the built-in Templates let it make.
func graph(names placement.Names) *unstructured.Unstructured {
	rgd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"schema": map[string]any{
			"apiVersion": versionOf(names).Version, "kind": kind, "group": versionOf(names).Group,
			"spec":   map[string]any{"beat": `string | default=""`},
			"status": map[string]any{"beat": `${echo.metadata.?annotations["` + annotationBeat + `"].orValue("")}`},
		},
		"resources": []any{map[string]any{
			"id": "echo",
			"template": map[string]any{
				"apiVersion": "v1", "kind": "Service",
				"metadata": map[string]any{"name": Name, "annotations": map[string]any{annotationBeat: "${schema.spec.beat}"}},
				"spec":     map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"name": "none", "port": int64(1)}}},
			},
		}},
	}}}
	rgd.SetGroupVersionKind(krov1alpha1.GroupVersion.WithKind("ResourceGraphDefinition"))
	rgd.SetName(names.Graph(Name))
	labels := names.GraphLabels("")
	delete(labels, placement.LabelTemplate) // there is no Template of it
	rgd.SetLabels(labels)
	rgd.SetAnnotations(map[string]string{annotationVersion: version})
	return rgd
}

// instance is the canary's instance with a beat.
func instance(names placement.Names, beat string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"beat": beat}}}
	obj.SetGroupVersionKind(versionOf(names).WithKind(kind))
	obj.SetNamespace(names.SystemNamespace())
	obj.SetName(Name)
	obj.SetLabels(map[string]string{placement.LabelManagedBy: placement.ManagedBy})
	return obj
}
