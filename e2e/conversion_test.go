// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	builtintemplates "github.com/sandbar-dev/sandbar/templates"
)

// sandboxSpec is the spec of the Template sandbox, of another kind.
func sandboxSpec(t *testing.T, kind string) map[string]any {
	t.Helper()
	tmpl, err := builtintemplates.Get("sandbox")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(tmpl.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	schema := spec["graph"].(map[string]any)["schema"].(map[string]any)
	schema["kind"] = kind
	delete(schema, "shortNames")
	return spec
}

// formerSandboxSpec is the same in version 0.1.0.
func formerSandboxSpec(t *testing.T, kind string) map[string]any {
	t.Helper()
	spec := sandboxSpec(t, kind)
	delete(spec, "conversions")
	schema := spec["graph"].(map[string]any)["schema"].(map[string]any)
	delete(schema, "additionalPrinterColumns")
	schema["types"] = map[string]any{"Tag": `string | minLength=1 maxLength=63 pattern="^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"`}
	maps.Copy(schema["spec"].(map[string]any), map[string]any{
		"owner": "string | maxLength=128", "tags": "[]Tag | maxItems=16 uniqueItems=true",
		"projectRef": `string | maxLength=63 pattern="^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$"`,
	})
	return spec
}

// TestSandboxesOfTheFormerFormAreConverted: a Template whose fields get another form gives it to the objects that there
// are, in kcp and on the runtime cluster, and no pod is replaced, started or stopped for it.
func TestSandboxesOfTheFormerFormAreConverted(t *testing.T) {
	changes(t)
	n := newNote(t)
	use := func(with map[string]any) {
		n.edit = func(spec map[string]any) {
			clear(spec)
			maps.Copy(spec, with)
		}
		n.apply()
	}
	use(formerSandboxSpec(t, n.kind))
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	tn.waitServed(n.gvr)
	former := map[string]any{"projectRef": "shop", "owner": "jane@example.com", "tags": []any{"demo", "q4"}, "displayName": "Notes"}
	create := func(name string, more map[string]any) *instance {
		spec := sampleSandbox(t)
		maps.Copy(spec, former)
		maps.Copy(spec, more)
		return tn.create(n.gvr, n.kind, name, spec)
	}
	box, asleep := create("box", nil), create("asleep", map[string]any{"suspended": true})
	box.waitReady()
	pod := box.pod()

	without := sandboxSpec(t, n.kind)
	delete(without, "conversions")
	use(without)
	n.wait("GraphAccepted", metav1.ConditionFalse, "IncompatibleSchema", "2 instances in 1 workspaces", "spec.owner would be invalid in 2", "spec.conversions")
	use(sandboxSpec(t, n.kind))
	n.wait("Ready", metav1.ConditionTrue, "Ready: ")
	for _, i := range []*instance{box, asleep} {
		i.waitConverted()
	}
	if now := box.pod(); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	box.waitReady()
	pods, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(asleep.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("the suspended instance has %d pods, %v", len(pods.Items), err)
	}
	// The tenant may go on to change it, and what goes from the object goes from the placement.
	box.patch(t, map[string]any{"displayName": nil, "projectRef": nil})
	box.waitDescribed("", "")
	box.waitReady()
	if now := box.pod(); now.UID != pod.UID {
		t.Error("the pod was replaced for a description")
	}
}

// waitConverted waits until the object has the new form, and its placement is described by that.
func (i *instance) waitConverted() {
	i.tn.t.Helper()
	want := map[string]any{
		"projectRef": map[string]any{"id": "shop"}, "owner": map[string]any{"type": "user", "id": "jane@example.com"},
		"tags": map[string]any{"demo": "", "q4": ""},
	}
	namespaces := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces()
	eventually(i.tn.t, i.name+" has the new form", func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
		for field, value := range want {
			if diff := cmp.Diff(value, spec[field]); diff != "" {
				return fmt.Errorf("%s (-want +got):\n%s", field, diff)
			}
		}
		ns, err := namespaces.Get(i.tn.t.Context(), i.id.Namespace(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ns.Labels[placement.LabelProject] != "shop" || ns.Annotations[placement.AnnotationOwner] != "user:jane@example.com" || ns.Annotations[placement.AnnotationTags] != "demo,q4" {
			return fmt.Errorf("labels %v, annotations %v", ns.Labels, ns.Annotations)
		}
		return nil
	})
}
