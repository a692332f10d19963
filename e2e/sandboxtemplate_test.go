// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

var sandboxTemplates = builtin.Of("SandboxTemplate").GVR()

// podSaying is the spec of a pod that prints a word, and its first environment variable.
func podSaying(word string) string {
	return `{terminationGracePeriodSeconds: 1, containers: [{name: main, image: ` + toolchain + `, env: [{name: OWN, value: none}], command: [sh, -c, "echo ` + word + ` $OWN; exec sleep 100000"]}]}`
}

// template creates a SandboxTemplate of a spec in YAML.
func (tn *tenant) template(name, spec string) error {
	tn.t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		tn.t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxTemplate", "spec": fields}}
	obj.SetName(name)
	_, err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{})
	return err
}

// apply creates the objects of a file, in their order, and calls before ahead of each.
func (tn *tenant) apply(file string, before func(*unstructured.Unstructured)) {
	tn.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		tn.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			tn.t.Fatal(err)
		}
		before(obj)
		gvr := map[string]schema.GroupVersionResource{"Sandbox": sandboxes, "SandboxTemplate": sandboxTemplates, "SandboxSet": sandboxSets, "Secret": corev1.SchemeGroupVersion.WithResource("secrets")}[obj.GetKind()]
		if _, err := tn.dyn.Resource(gvr).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{}); err != nil {
			tn.t.Fatal(err)
		}
	}
}

func (tn *tenant) mustTemplate(name, spec string) {
	tn.t.Helper()
	if err := tn.template(name, spec); err != nil {
		tn.t.Fatal(err)
	}
}

// waitValid waits until the condition Valid of a SandboxTemplate has a status and a reason, and its message
// these words.
func (tn *tenant) waitValid(name string, status metav1.ConditionStatus, reason string, words ...string) *unstructured.Unstructured {
	tn.t.Helper()
	var obj *unstructured.Unstructured
	eventually(tn.t, fmt.Sprintf("SandboxTemplate %s is Valid=%s %s", name, status, reason), func() (err error) {
		obj, err = tn.dyn.Resource(sandboxTemplates).Namespace("default").Get(tn.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			message, _ := condition["message"].(string)
			if condition["type"] != "Valid" || condition["status"] != string(status) || condition["reason"] != reason {
				continue
			}
			for _, word := range words {
				if !strings.Contains(message, word) {
					return fmt.Errorf("the message %q lacks %q", message, word)
				}
			}
			return nil
		}
		return fmt.Errorf("conditions %v", conditions)
	})
	return obj
}

// TestSandboxTemplates: a tenant's own template, told at once whether Sandboxes can be made of it, patched by
// another one and by a Sandbox, and never changed.
func TestSandboxTemplates(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	tn.waitServed(sandboxTemplates)
	c := callAs(t, tn.token)
	says := func(t *testing.T, box *instance, text string) {
		t.Helper()
		eventually(t, "it says "+text, func() error {
			if _, log := c.do("GET", box.base()+"/log", nil); !strings.Contains(log, text) {
				return fmt.Errorf("the log is %q", log)
			}
			return nil
		})
	}
	waits := tn.box("early", `{template: {templateRef: {kind: SandboxTemplate, name: own}}}`)
	waits.waitRefused("TemplateNotUsable", `no SandboxTemplate "own"`)
	tn.mustTemplate("own", `{description: "says own", template: {spec: `+podSaying("own")+`}}`)
	own := tn.waitValid("own", metav1.ConditionTrue, "Valid")
	if hash, _, _ := unstructured.NestedString(own.Object, "status", "podHash"); hash == "" {
		t.Error("it has no podHash")
	}
	if len(own.GetFinalizers()) > 0 {
		t.Errorf("its deletion waits for %v", own.GetFinalizers())
	}
	waits.waitReady()
	says(t, waits, "own none")

	t.Run("with a patch, and a Sandbox's patch on it", func(t *testing.T) {
		tn.mustTemplate("patched", `{templateRef: {kind: SandboxTemplate, name: own}, patch: {spec: {containers: [{name: main, env: [{name: OWN, value: patched}]}]}}}`)
		tn.waitValid("patched", metav1.ConditionTrue, "Valid")
		box := tn.box("patched", `{template: {templateRef: {kind: SandboxTemplate, name: patched}, patch: {spec: {containers: [{name: main, env: [{name: OWN, value: twice}]}]}}}}`)
		box.waitReady()
		says(t, box, "own twice")
	})
	t.Run("as the example has it", func(t *testing.T) {
		tn.apply("../examples/tenant/sandboxtemplate.yaml", func(*unstructured.Unstructured) {})
		tn.existing(sandboxes, "of-shell").waitReady()
	})
	t.Run("is not changed", func(t *testing.T) {
		patch := func(spec string) error {
			_, err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Patch(t.Context(), "own", types.MergePatchType, []byte(spec), metav1.PatchOptions{})
			return err
		}
		for name, spec := range map[string]string{
			"pod":                 `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`,
			"label":               `{"spec":{"template":{"metadata":{"labels":{"app":"x"}}}}}`,
			"persistent contents": `{"spec":{"persistentContents":[]}}`,
			"volumes":             `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"resources":{"requests":{"storage":"1Mi"}}}}]}}`,
			"reference":           `{"spec":{"template":null,"templateRef":{"kind":"SandboxTemplate","name":"patched"}}}`,
		} {
			if err := patch(spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "does not change") {
				t.Errorf("another %s: %v", name, err)
			}
		}
		if err := patch(`{"spec":{"description":"says own, still"}}`); err != nil {
			t.Errorf("another description: %v", err)
		}
		if _, err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Patch(t.Context(), "own", types.MergePatchType, []byte(`{"status":{"podHash":"forged"}}`), metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
			t.Errorf("a status of the tenant's: %v", err)
		}
	})
	t.Run("that cannot be", func(t *testing.T) {
		for name, test := range map[string]struct{ spec, word string }{
			"both":     {`{template: {spec: ` + podSaying("x") + `}, templateRef: {name: x}}`, "exactly one of"},
			"neither":  {`{description: nothing}`, "exactly one of"},
			"patch":    {`{template: {spec: ` + podSaying("x") + `}, patch: {spec: {}}}`, "patch goes with templateRef"},
			"node":     {`{template: {spec: {nodeName: chosen, containers: [{name: main, image: x}]}}}`, "not a tenant's to set"},
			"memory":   {`{template: {spec: ` + podSaying("x") + `}, persistentContents: [memory]}`, "memory"},
			"kind":     {`{templateRef: {kind: Deployment, name: x}}`, "Deployment"},
			"volumes":  {`{template: {spec: ` + podSaying("x") + `}, volumeClaimTemplates: [{metadata: {name: v}, spec: {resources: {requests: {storage: 1Gi}}}}, {metadata: {name: v}, spec: {resources: {requests: {storage: 1Gi}}}}]}`, "same name"},
			"describe": {`{description: "` + strings.Repeat("x", 2049) + `", template: {spec: ` + podSaying("x") + `}}`, "2048"},
		} {
			if err := tn.template("refused", test.spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.word) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("that is told what is wrong", func(t *testing.T) {
		tn.mustTemplate("host", `{templateRef: {kind: SandboxTemplate, name: own}, patch: {spec: {hostNetwork: true}}}`)
		tn.waitValid("host", metav1.ConditionFalse, "SpecRefused", "correct spec.patch", "hostNetwork")
		tn.mustTemplate("misspelt", `{templateRef: {kind: SandboxTemplate, name: own}, patch: {spec: {continers: []}}}`)
		tn.waitValid("misspelt", metav1.ConditionFalse, "TemplateNotUsable", "continers")
		tn.mustTemplate("probe", `{template: {spec: {containers: [{name: Main, image: x}]}}}`)
		tn.waitValid("probe", metav1.ConditionFalse, "PodRefused", "Main")
		tn.mustTemplate("later", `{templateRef: {kind: SandboxTemplate, name: base}}`)
		tn.waitValid("later", metav1.ConditionFalse, "TemplateNotUsable", `no SandboxTemplate "base"`)
		tn.mustTemplate("base", `{template: {spec: `+podSaying("base")+`}}`)
		tn.waitValid("later", metav1.ConditionTrue, "Valid")
	})
	t.Run("gone, and the Sandbox of it stays", func(t *testing.T) {
		if err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waits.mustPatch(`{"spec":{"suspended":true}}`)
		eventually(t, "it is suspended without its template", func() error {
			obj, err := waits.get()
			if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); err == nil && phase != "Suspended" {
				err = fmt.Errorf("its phase is %q", phase)
			}
			return err
		})
		waits.mustPatch(`{"spec":{"suspended":false}}`)
		waits.waitReady()
		tn.mustTemplate("own", `{template: {spec: `+podSaying("another")+`}}`)
		tn.waitValid("own", metav1.ConditionTrue, "Valid")
		before := waits.pod()
		waits.mustPatch(`{"metadata":{"labels":{"looked-at":"again"}}}`)
		says(t, waits, "own none")
		if now := waits.pod(); now.UID != before.UID {
			t.Error("its pod was replaced, although nobody had changed the Sandbox")
		}
		waits.mustPatch(`{"spec":{"template":{"patch":{"spec":{"containers":[{"name":"main","env":[{"name":"OWN","value":"changed"}]}]}}}}}`)
		says(t, waits, "another changed")
	})
}
