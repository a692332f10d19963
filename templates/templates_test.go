// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func get(t *testing.T, name string) *sandbarv1alpha1.Template {
	t.Helper()
	tmpl, err := Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestTheContractsHold(t *testing.T) {
	for _, name := range Names() {
		for _, problem := range contract.Check(&get(t, name).Spec) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func TestAFolderIsNamedLikeItsTemplate(t *testing.T) {
	for _, name := range Names() {
		if got := get(t, name).Name; got != name {
			t.Errorf("the Template in %s is named %s", name, got)
		}
	}
}

func TestAnUnknownNameIsAnErrorThatListsTheOthers(t *testing.T) {
	_, err := Get("nosuch")
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "redis, sandbox, sandbox-group, sandbox-runner") {
		t.Errorf("err = %v, want ErrUnknown with the names", err)
	}
}

// resources are the objects of a graph by id.
func resources(t *testing.T, tmpl *sandbarv1alpha1.Template) map[string]map[string]any {
	t.Helper()
	var graph struct {
		Resources []struct {
			ID       string         `json:"id"`
			Template map[string]any `json:"template"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &graph); err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for _, r := range graph.Resources {
		if r.Template != nil {
			objects[r.ID] = r.Template
		}
	}
	return objects
}

func dig(object map[string]any, path ...string) any {
	var at any = object
	for _, step := range path {
		fields, _ := at.(map[string]any)
		at = fields[step]
	}
	return at
}

// The data plane follows no reference to an object without this label.
func TestEveryObjectAndPodCarriesTheInstanceUID(t *testing.T) {
	const want = `${schema.metadata.labels["` + placement.LabelInstanceUID + `"]}`
	for _, name := range Names() {
		if get(t, name).Spec.Clones != nil {
			continue // package clone labels what is a copy
		}
		for id, object := range resources(t, get(t, name)) {
			if got := dig(object, "metadata", "labels", placement.LabelInstanceUID); got != want {
				t.Errorf("%s: %s is labelled %v, want %s", name, id, got, want)
			}
			if dig(object, "spec", "template") == nil {
				continue
			}
			if _, whole := dig(object, "spec", "template").(string); whole && get(t, name).Spec.PodTemplate != nil {
				continue // the tenant's: package podtemplate labels it
			}
			if got := dig(object, "spec", "template", "metadata", "labels", placement.LabelInstanceUID); got != want {
				t.Errorf("%s: the pods of %s are labelled %v, want %s", name, id, got, want)
			}
		}
	}
}

// A tenant chooses the name of its object. Nothing on the runtime cluster may be named by it, but for copies, whose names
// package clone checks.
func TestChildNamesAreConstants(t *testing.T) {
	for _, name := range Names() {
		if get(t, name).Spec.Clones != nil {
			continue
		}
		for id, object := range resources(t, get(t, name)) {
			child, _ := dig(object, "metadata", "name").(string)
			if child == "" || strings.Contains(child, "${") {
				t.Errorf("%s: the name of %s is %q, want a constant", name, id, child)
			}
			if ns := dig(object, "metadata", "namespace"); ns != nil {
				t.Errorf("%s: %s names a namespace, %v; it must lie in the placement", name, id, ns)
			}
		}
	}
}

// The namespaces of placements enforce the level restricted; a pod that breaks it never starts.
func TestPodsKeepToTheRestrictedLevel(t *testing.T) {
	for _, name := range Names() {
		for id, object := range resources(t, get(t, name)) {
			pod, ok := dig(object, "spec", "template", "spec").(map[string]any)
			if !ok {
				continue
			}
			at := name + ": " + id
			if dig(pod, "securityContext", "runAsNonRoot") != true {
				t.Errorf("%s may run as root", at)
			}
			if dig(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s has no seccomp profile", at)
			}
			if pod["automountServiceAccountToken"] != false {
				t.Errorf("%s gets a token of the runtime cluster", at)
			}
			inits, _ := pod["initContainers"].([]any)
			containers, _ := pod["containers"].([]any)
			for _, c := range append(inits, containers...) {
				checkContainer(t, at, c.(map[string]any))
			}
			// Without one, a container without a limit of its own could fill the node's disk.
			volumes, _ := pod["volumes"].([]any)
			for _, v := range volumes {
				if volume := v.(map[string]any); volume["emptyDir"] != nil && dig(volume, "emptyDir", "sizeLimit") == nil {
					t.Errorf("%s: volume %v has no sizeLimit", at, volume["name"])
				}
			}
		}
	}
}

func checkContainer(t *testing.T, at string, container map[string]any) {
	t.Helper()
	security, _ := container["securityContext"].(map[string]any)
	if security["allowPrivilegeEscalation"] != false || security["readOnlyRootFilesystem"] != true {
		t.Errorf("%s: container %v may escalate or write to its root", at, container["name"])
	}
	if diff := cmp.Diff([]any{"ALL"}, dig(security, "capabilities", "drop")); diff != "" {
		t.Errorf("%s: container %v keeps capabilities:\n%s", at, container["name"], diff)
	}
	for _, kind := range []string{"requests", "limits"} {
		for _, resource := range []string{"cpu", "memory"} {
			if dig(container, "resources", kind, resource) == nil {
				t.Errorf("%s: container %v has no %s of %s", at, container["name"], kind, resource)
			}
		}
	}
}

func TestWithoutGatewayDropsRoutesAndNothingElse(t *testing.T) {
	whole := get(t, "sandbox-runner")
	bare, dropped, err := WithoutGateway(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"route", "grant"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	kept := resources(t, bare)
	for id, object := range resources(t, whole) {
		if id == "route" || id == "grant" {
			if _, ok := kept[id]; ok {
				t.Errorf("%s is still there", id)
			}
			continue
		}
		if diff := cmp.Diff(object, kept[id]); diff != "" {
			t.Errorf("%s has changed:\n%s", id, diff)
		}
	}
	status, want := statusOf(t, bare), statusOf(t, whole)
	delete(want, "preview")
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("the status has changed otherwise than by the field that comes from a route:\n%s", diff)
	}
	if strings.Contains(string(whole.Spec.Graph.Raw), gatewayGroup) == strings.Contains(string(bare.Spec.Graph.Raw), gatewayGroup) {
		t.Error("the original has changed, or the copy has not")
	}
	if _, dropped, err := WithoutGateway(get(t, "redis")); err != nil || len(dropped) > 0 {
		t.Errorf("of redis: dropped %v, err %v", dropped, err)
	}
}

// The golden files show in a review what a change of a Template means for kro.
func TestTheAppliedTemplateIsTheGolden(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(get(t, name).Spec)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", name+".golden.yaml"), got)
		})
	}
}

// A person who has bound the API begins with a manifest that works.
func TestEveryKindHasASample(t *testing.T) {
	samples, err := filepath.Glob("../examples/tenant/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string][]string{} // of spec, by kind
	for _, sample := range samples {
		raw, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		var obj struct {
			Kind string         `json:"kind"`
			Spec map[string]any `json:"spec"`
		}
		if err := yaml.Unmarshal(raw, &obj); err != nil {
			t.Fatalf("%s: %v", sample, err)
		}
		fields[obj.Kind] = append(fields[obj.Kind], slices.Sorted(maps.Keys(obj.Spec))...)
	}
	for _, name := range Names() {
		tmpl := get(t, name)
		var graph struct {
			Schema struct {
				Kind string         `json:"kind"`
				Spec map[string]any `json:"spec"`
			} `json:"schema"`
		}
		if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &graph); err != nil {
			t.Fatal(err)
		}
		used, ok := fields[graph.Schema.Kind]
		if !ok {
			t.Errorf("examples/tenant has no %s", graph.Schema.Kind)
		}
		for _, field := range used {
			added := field == "lifecycle" || field == "mode" && tmpl.Spec.Development != nil ||
				tmpl.Spec.PodTemplate != nil && field == tmpl.Spec.PodTemplate.From ||
				tmpl.Spec.Clones != nil && (field == tmpl.Spec.Clones.From || field == contract.BaselineRefField) ||
				tmpl.Spec.Compound != nil && slices.Contains([]string{tmpl.Spec.Compound.From, tmpl.Spec.Compound.RoutingFrom, contract.BaselineRefField}, field)
			if _, has := graph.Schema.Spec[field]; !has && !added {
				t.Errorf("a sample of %s has the field spec.%s, which the kind does not have", graph.Schema.Kind, field)
			}
		}
	}
}
