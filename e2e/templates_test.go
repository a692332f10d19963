// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// templateHead is what all Templates of these tests begin with.
const templateHead = `
apiVersion: sandbar.dev/v1alpha1
kind: Template
metadata: {name: NAME}
spec:
  displayName: Of a test
  version: 0.1.0
  graph:
    schema:
      apiVersion: v1alpha1
      kind: KIND
      group: sandbar.dev`

const noteTemplate = templateHead + `
      spec:
        text: string | required=true
        size: integer | default=1
        suspended: boolean | default=false
      status:
        noteRef:
          name: ${note.metadata.name}
          namespace: ${note.metadata.namespace}
    resources:
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: note
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        data: {text: '${schema.spec.text}'}
  dataPlane:
    endpoints:
      status: {from: instanceStatus}
`

// note is a small Template of its own kind, for tests that change or break it.
type note struct {
	t    *testing.T
	name string
	kind string
	gvr  schema.GroupVersionResource
	dyn  dynamic.Interface
	// text is the Template as YAML; edit, if any, changes its spec.
	text string
	edit func(spec map[string]any)
}

// newNote ends the kind in a word: the plural of random letters is not always theirs and an s.
func newNote(t *testing.T) *note {
	t.Helper()
	suffix := randomHex(3)
	n := &note{t: t, name: "note-" + suffix, kind: "N" + suffix + "Note", text: noteTemplate, dyn: dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))}
	n.gvr = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: strings.ToLower(n.kind) + "s"}
	return n
}

func (n *note) object(replace ...string) *unstructured.Unstructured {
	n.t.Helper()
	text := strings.NewReplacer(append([]string{"NAME", n.name, "KIND", n.kind}, replace...)...).Replace(n.text)
	var obj unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		n.t.Fatal(err)
	}
	if n.edit != nil {
		n.edit(obj.Object["spec"].(map[string]any))
	}
	return &obj
}

// apply creates or replaces the Template; it is deleted when the test ends.
func (n *note) apply(replace ...string) {
	n.t.Helper()
	obj := n.object(replace...)
	_, err := n.dyn.Resource(templates).Create(n.t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		eventually(n.t, "changing Template "+n.name, func() error {
			old, err := n.dyn.Resource(templates).Get(n.t.Context(), n.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			old.Object["spec"] = obj.Object["spec"]
			_, err = n.dyn.Resource(templates).Update(n.t.Context(), old, metav1.UpdateOptions{})
			return err
		})
		return
	}
	if err != nil {
		n.t.Fatalf("creating Template %s: %v", n.name, err)
	}
	n.t.Cleanup(func() { n.deleteAndWait() })
}

func (n *note) deleteAndWait() {
	ctx := context.Background() // also after the test
	if err := n.dyn.Resource(templates).Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		n.t.Errorf("deleting Template %s: %v", n.name, err)
	}
	err := poll(ctx, patience(), func() error {
		got, err := n.dyn.Resource(templates).Get(ctx, n.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %v, %w", got, err)
	})
	if err != nil {
		n.t.Errorf("deleting Template %s: %v", n.name, err)
	}
}

// wait waits until a condition has a status and its text mentions each of the words.
func (n *note) wait(kind string, status metav1.ConditionStatus, words ...string) string {
	n.t.Helper()
	var said string
	eventually(n.t, fmt.Sprintf("Template %s: %s is %s with %q", n.name, kind, status, words), func() error {
		got, err := n.dyn.Resource(templates).Get(n.t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := condition(got, kind)
		if c == nil || c["status"] != string(status) {
			return fmt.Errorf("conditions: %v", got.Object["status"])
		}
		said = fmt.Sprint(c["reason"], ": ", c["message"])
		for _, w := range words {
			if !strings.Contains(said, w) {
				return fmt.Errorf("it says %q", said)
			}
		}
		return nil
	})
	n.t.Logf("%s=%s %s", kind, status, said)
	return said
}

// TestTemplateConditions is promise 7: whatever is wrong with a Template, its condition says
// exactly what to do.
func TestTemplateConditions(t *testing.T) {
	long(t, "the integration tests of Templates have its promise, and TestKindsComeAndGo that of the data plane")
	changes(t)
	t.Run("a graph that kro refuses shows kro's own message", func(t *testing.T) {
		n := newNote(t)
		n.apply("${schema.spec.text}", "${schema.spec.txet}")
		n.wait("GraphAccepted", metav1.ConditionFalse, "txet")
		n.wait("Ready", metav1.ConditionFalse)
		n.apply()
		n.wait("Ready", metav1.ConditionTrue)
	})
	t.Run("a contract that names a missing status path", func(t *testing.T) {
		n := newNote(t)
		n.apply("status: {from: instanceStatus}", "log: {serviceRef: status.nothingRef, port: http, methods: [GET]}")
		n.wait("Ready", metav1.ConditionFalse, "spec.dataPlane.endpoints.log.serviceRef", "status.nothingRef", "noteRef")
	})
	t.Run("an incompatible schema change is refused and harms nobody", func(t *testing.T) {
		n := newNote(t)
		n.apply()
		n.wait("Ready", metav1.ConditionTrue)
		tn := newTenant(t, "alice")
		tn.waitServed(n.gvr)
		obj := tn.create(n.gvr, n.kind, "keep", map[string]any{"text": "hello", "size": int64(2)}) // not what it has by itself
		n.apply("size: integer | default=1\n", "\n")
		n.wait("GraphAccepted", metav1.ConditionFalse, "IncompatibleSchema", "spec.size")
		if _, err := obj.get(); err != nil {
			t.Errorf("the tenant's object after the refusal: %v", err)
		}
		another := tn.createNote(n, "another")
		obj.delete()
		another.delete()
		n.apply("size: integer | default=1", "size: integer | default=1\n        extra: string | default=\"\"")
		n.wait("Ready", metav1.ConditionTrue)
	})
	t.Run("deletion in use waits and says for whom", func(t *testing.T) {
		n := newNote(t)
		n.apply()
		n.wait("Ready", metav1.ConditionTrue)
		tn := newTenant(t, "bob")
		obj := tn.createNote(n, "keep")
		obj.waitReady()
		if err := n.dyn.Resource(templates).Delete(t.Context(), n.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		n.wait("Ready", metav1.ConditionFalse, "1 "+n.gvr.Resource)
		if _, err := obj.get(); err != nil {
			t.Errorf("the tenant's object while the Template waits: %v", err)
		}
		obj.delete()
		waitGone(t, obj.id)
		n.deleteAndWait()
	})
}

// TestKindsComeAndGo is promise 7 for the data plane: a kind that comes while the provider runs is served, and
// one that goes is not.
func TestKindsComeAndGo(t *testing.T) {
	changes(t)
	n := newNote(t)
	n.apply("${schema.spec.text}", "${schema.spec.txet}")
	n.wait("GraphAccepted", metav1.ConditionFalse, "txet")
	n.wait("Ready", metav1.ConditionFalse)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	obj := tn.createNote(n, "keep")
	obj.waitReady()
	c := callAs(t, tn.token)
	c.want(200, "GET", obj.base()+"/status", nil)
	obj.delete()
	waitGone(t, obj.id)
	n.deleteAndWait()
	eventually(t, "its verbs are gone", func() error {
		if code, body := c.do("GET", obj.base()+"/status", nil); code != 404 && code != 403 {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}

func (tn *tenant) createNote(n *note, name string) *instance {
	tn.t.Helper()
	tn.waitServed(n.gvr)
	return tn.create(n.gvr, n.kind, name, map[string]any{"text": "hello"})
}
