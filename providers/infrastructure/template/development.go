// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/expression"
)

const (
	// inDevelopment is true in an instance that is to be developed.
	inDevelopment = `schema.spec.mode == "development"`
	// uidLabel is the value of the label without which the data plane follows no reference.
	uidLabel = `${schema.metadata.labels["` + placement.LabelInstanceUID + `"]}`
	// platformID is the id of the platform's ConfigMap in a graph that does not refer to it.
	platformID = contract.OwnPrefix + "Platform"
)

// develop completes a graph that has passed contract.Check with what its development contract
// asks for, in place: the field spec.mode, for each component a workspace and a Service of the
// runner, and in the component's workload what differs between the modes, as expressions. The
// workload stays the same resource, so that whatever refers to it does not notice.
func develop(graph map[string]any, spec *sandbarv1alpha1.TemplateSpec) error {
	development := spec.Development
	if development == nil {
		return nil
	}
	schema, _ := graph["schema"].(map[string]any)
	resources, _ := graph["resources"].([]any)
	if schema == nil {
		return errors.New("spec.graph.schema is missing")
	}
	child(schema, "spec")["mode"] = contract.ModeField
	platform, resources := platformOf(resources)
	status := child(child(schema, "status"), contract.DevelopmentStatus)
	for _, name := range slices.Sorted(maps.Keys(development.Components)) {
		component := development.Components[name]
		w, problem := contract.FindWorkload(resources, name, &component)
		if problem != nil {
			return errors.New(problem.String())
		}
		id := contract.OwnPrefix + "Control" + name
		// Before the workload is changed: its ports are an expression afterwards.
		resources = append(resources, workspace(name, &component), controlService(id, name, w, component.Port))
		p := podPatch{name: name, component: &component, workload: w, platform: platform}
		if err := p.apply(); err != nil {
			return fmt.Errorf("spec.development.components.%s: %w", name, err)
		}
		status[name] = map[string]any{contract.ControlServiceField: map[string]any{
			"name": expression.Wrap(id + ".metadata.name"), "namespace": expression.Wrap(id + ".metadata.namespace"),
		}}
		if spec.DataPlane.TokenSecretRef == "" {
			// kro has the field only as long as the Service is there, as it should be.
			status[contract.ControlSecretField] = map[string]any{
				"name":      expression.Wrap(id + `.metadata.annotations["` + annotationControl + `"]`),
				"namespace": expression.Wrap(id + ".metadata.namespace"),
			}
		}
	}
	graph["resources"] = resources
	return nil
}

// runnerImage is the key of the image that the runner is copied from.
const runnerImage = "runner"

// child returns an object inside an object, made if it is missing.
func child(object map[string]any, name string) map[string]any {
	inner, ok := object[name].(map[string]any)
	if !ok {
		inner = map[string]any{}
		object[name] = inner
	}
	return inner
}

// platformOf returns the id of the reference to the platform's ConfigMap, added if need be.
func platformOf(resources []any) (id string, all []any) {
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		ref, _ := resource["externalRef"].(map[string]any)
		metadata, _ := ref["metadata"].(map[string]any)
		if ref["kind"] == "ConfigMap" && metadata["name"] == placement.PlatformConfigMap && metadata["namespace"] == placement.SystemNamespace {
			id, _ = resource["id"].(string)
			return id, resources
		}
	}
	return platformID, append(resources, map[string]any{
		"id": platformID,
		"externalRef": map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": placement.PlatformConfigMap, "namespace": placement.SystemNamespace},
		},
	})
}

// workspaceName is the name of a component's claim and, in its pod, of the volume.
func workspaceName(component string) string { return contract.OwnPrefix + "-workspace-" + component }

// workspace is the claim of a component. It is there in production too: a switch to and fro must
// not lose what was made in the sandbox and nowhere else.
func workspace(name string, component *sandbarv1alpha1.DevelopmentComponent) any {
	return map[string]any{
		"id": contract.OwnPrefix + "Workspace" + name,
		"template": map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{
				"name": workspaceName(name), "labels": map[string]any{placement.LabelInstanceUID: uidLabel},
			},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"},
				"resources":   map[string]any{"requests": map[string]any{"storage": cmp.Or(component.StorageSize, defaultStorage)}},
			},
		},
	}
}

const (
	defaultStorage = "1Gi"
	// annotationControl names the control token's Secret for the graph's status, whose
	// expressions must read a resource.
	annotationControl = "sandbar.dev/control"
)

// controlService leads to a component's runner, and to what the component serves, as long as the
// instance is in development mode.
func controlService(id, name string, w *contract.Workload, appPort string) any {
	ports := []any{map[string]any{"name": contract.ControlPort, "port": contract.RunnerPort, "targetPort": controlPort}}
	if appPort != "" {
		number, _ := w.Port(appPort)
		ports = append(ports, map[string]any{"name": appPort, "port": number, "targetPort": appPort})
	}
	selector, _ := w.Spec["selector"].(map[string]any)
	return map[string]any{
		"id":          id,
		"includeWhen": []any{expression.Wrap(inDevelopment)},
		"template": map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{
				"name":        contract.OwnPrefix + "-control-" + name,
				"labels":      map[string]any{placement.LabelInstanceUID: uidLabel},
				"annotations": map[string]any{annotationControl: placement.ControlSecret},
			},
			"spec": map[string]any{
				// The log of a process that does not come up is wanted most of all.
				"publishNotReadyAddresses": true,
				"selector":                 runtime.DeepCopyJSONValue(selector["matchLabels"]),
				"ports":                    ports,
			},
		},
	}
}

// reloadRules are the rules as the runner reads them from its environment.
func reloadRules(component *sandbarv1alpha1.DevelopmentComponent) (string, error) {
	if component.Reload == nil || len(component.Reload.Rules) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(component.Reload.Rules)
	return string(raw), err
}
