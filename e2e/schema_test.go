// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestNewFieldsAndVerbsReachEveryInstance changes a Template several times in a row, each time by a
// field that its ConfigMap shows and by a verb with a Service of its own, while several tenants have
// instances. Each tenant sets the new field at once, when its workspace first takes it.
//
// Two caches lied before: the controllers' copies of tenants' objects and the data plane's of kro's
// instances went on as the former schema had pruned them. The status said that the new generation
// was Ready, and the runtime had the field's default.
func TestNewFieldsAndVerbsReachEveryInstance(t *testing.T) {
	changes(t)
	changeSchema(t, 2, 2)
}

// TestManyNewFieldsAndVerbsReachEveryInstance is the same with more changes and instances.
func TestManyNewFieldsAndVerbsReachEveryInstance(t *testing.T) {
	long(t, "TestNewFieldsAndVerbsReachEveryInstance has most of its promise")
	changes(t)
	changeSchema(t, 4, 3)
}

// changeSchema changes a Template in rounds while two tenants have instances of it.
func changeSchema(t *testing.T, rounds, perTenant int) {
	n := newNote(t)
	n.text = strings.NewReplacer(
		"        suspended: boolean", "        FIELDS\n        suspended: boolean",
		"        noteRef:", "        OUTPUTS\n        noteRef:",
		"data: {text: '${schema.spec.text}'}", "data: {text: '${schema.spec.text}' DATA}\n    SERVICES",
		"      status: {from: instanceStatus}", "      status: {from: instanceStatus}\n      VERBS",
	).Replace(n.text)
	n.applyRound(0)
	n.wait("Ready", metav1.ConditionTrue)
	var instances []*instance
	for _, user := range []string{"alice", "bob"} {
		tn := newTenant(t, user)
		for i := range perTenant {
			instances = append(instances, tn.createNote(n, fmt.Sprintf("note-%d", i)))
		}
	}
	for _, i := range instances {
		i.waitReady()
	}
	for round := 1; round <= rounds; round++ {
		n.applyRound(round)
		var all sync.WaitGroup
		for _, i := range instances {
			all.Go(func() { i.setNewField(round) })
		}
		all.Wait()
		n.wait("Ready", metav1.ConditionTrue)
		for _, i := range instances {
			i.checkRound(round)
		}
	}
}

// applyRound applies the Template with the fields and verbs of all rounds so far.
func (n *note) applyRound(round int) {
	n.t.Helper()
	var fields, outputs, data, services, verbs strings.Builder
	for r := 1; r <= round; r++ {
		fmt.Fprintf(&fields, "more%d: string | default=\"b\"\n        ", r)
		fmt.Fprintf(&outputs, "more%dRef: {name: '${service%d.metadata.name}', namespace: '${service%d.metadata.namespace}'}\n        ", r, r, r)
		fmt.Fprintf(&data, ", more%d: '${schema.spec.more%d}'", r, r)
		fmt.Fprintf(&services, `- id: service%d
      template:
        apiVersion: v1
        kind: Service
        metadata:
          name: more%d
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        spec: {ports: [{name: http, port: 80}], selector: {app: nobody}}
    `, r, r)
		fmt.Fprintf(&verbs, "more%d: {serviceRef: status.more%dRef, port: http, methods: [GET]}\n      ", r, r)
	}
	n.apply("FIELDS\n        ", fields.String(), "OUTPUTS\n        ", outputs.String(), " DATA", data.String(),
		"SERVICES\n", strings.TrimRight(services.String(), " ")+"\n", "VERBS\n", strings.TrimRight(verbs.String(), " ")+"\n")
}

// setNewField sets the round's field as soon as the workspace knows it. Strict validation refuses an
// unknown field, as it does for kubectl.
func (i *instance) setNewField(round int) {
	patch := fmt.Sprintf(`{"spec":{"more%d":"tenant-value"}}`, round)
	err := poll(i.tn.t.Context(), patience(), func() error {
		_, err := i.tn.dyn.Resource(i.gvr).Namespace("default").Patch(i.tn.t.Context(), i.name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	})
	if err != nil {
		i.tn.t.Errorf("setting more%d of %s: %v", round, i.name, err)
	}
}

// checkRound waits until the instance has what the round brought, and fails at once on a status that
// says so before it is true.
func (i *instance) checkRound(round int) {
	i.tn.t.Helper()
	eventually(i.tn.t, fmt.Sprintf("round %d of %s", round, i.id.Namespace()), func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		if value, _, _ := unstructured.NestedString(obj.Object, "spec", fmt.Sprintf("more%d", round)); value != "tenant-value" {
			i.tn.t.Fatalf("the tenant's own object has lost its value: more%d is %q", round, value)
		}
		if err := conditionError(obj, "Ready", metav1.ConditionTrue); err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
		if observed != obj.GetGeneration() {
			return fmt.Errorf("generation %d of %d is observed", observed, obj.GetGeneration())
		}
		if err := i.hasFields(round); err != nil {
			i.tn.t.Fatalf("status says that generation %d is Ready: %v", observed, err)
		}
		return i.hasVerb(round)
	})
}

func (i *instance) hasFields(round int) error {
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	var note *corev1.ConfigMap
	note, err := kube.CoreV1().ConfigMaps(i.id.Namespace()).Get(context.Background(), "note", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for r := 1; r <= round; r++ {
		if got := note.Data[fmt.Sprintf("more%d", r)]; got != "tenant-value" {
			return fmt.Errorf("the runtime has more%d = %q", r, got)
		}
	}
	return nil
}

// hasVerb reports whether the data plane finds the Service that the round brought: it says then that
// no pod is ready, and not that the Service has no name yet.
func (i *instance) hasVerb(round int) error {
	code, body := callAs(i.tn.t, i.tn.token).do("GET", fmt.Sprintf("%s/more%d", i.base(), round), nil)
	if code != 409 || !strings.Contains(body, "no pod") {
		return fmt.Errorf("code %d: %s", code, body)
	}
	return nil
}
