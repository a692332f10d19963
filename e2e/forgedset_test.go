// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestForgedReferencesOfATakenSandbox: TestForgedReferences for a Sandbox whose placement was there first, and found by its owner's
// labels and not by its name. Nothing that the tenant says of itself leads to a member, to another placement, or away from its own.
func TestForgedReferencesOfATakenSandbox(t *testing.T) {
	long(t, "TestForgedReferences has most of its promise, and stops kro, too")
	breaks(t)
	tn := setTenant(t, "alice")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", `{replicas: 2, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 100%}}`)
	tn.waitSet("warm", "has two", hasAvailable(2))
	box := tn.box("taken", claimsOwn)
	if start := box.started(); start.Type != sandbarv1alpha1.StartWarm {
		t.Fatalf("it started as %+v", start)
	}
	tn.waitSet("warm", "has two again", hasAgain(2, 1))
	c := callAs(t, tn.token)
	saysOwn := func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code != http.StatusOK || !strings.Contains(body, "own none") {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	}
	if err := saysOwn(); err != nil {
		t.Error(err)
	}
	member := tn.membersOf("warm")[0]

	t.Run("labels of its tenant make it neither a member nor the owner of one", func(t *testing.T) {
		labels := map[string]string{
			placement.LabelInstanceUID: member.Labels[placement.LabelInstanceUID], placement.LabelSetUID: member.Labels[placement.LabelSetUID],
			placement.LabelOwnerUID: box.ownerUID(), placement.LabelOwnerCluster: "another", placement.LabelCluster: "another", placement.LabelMemberState: placement.MemberWarm,
		}
		said := mustJSON(t, labels)
		box.mustPatch(`{"metadata":{"labels":` + said + `,"annotations":{"` + placement.AnnotationSetName + `":"warm","` + placement.AnnotationInstanceNamespace + `":"kube-system"}}}`)
		// One that says all of it at its creation, and that it is the first.
		second := tn.labelledBox("second", labels, map[string]any{
			"prewarm": "None", "template": map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": "own"}},
		})
		if start := second.started(); start.Type != sandbarv1alpha1.StartCold || second.id.Namespace() == box.id.Namespace() || second.id.Namespace() == member.Name {
			t.Errorf("it started as %+v, in %s", start, second.id.Namespace())
		}
		ns, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces().Get(t.Context(), box.id.Namespace(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if placed, ok := placement.Of(ns); !ok || placed.ID != box.id || placed.Owner != (placement.Owner{Cluster: tn.cluster, UID: types.UID(box.ownerUID())}) || ns.Labels[placement.LabelSetUID] != "" {
			t.Errorf("the placement is %+v with the labels %v", placed, ns.Labels)
		}
		if err := saysOwn(); err != nil {
			t.Error(err)
		}
		if now := tn.membersOf("warm"); len(now) != 2 {
			t.Errorf("the set has %d members", len(now))
		}
	})
	t.Run("a runtime instance whose status points elsewhere is refused", func(t *testing.T) {
		objects := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(sandboxes).Namespace(box.id.Namespace())
		pause(t, "kro")
		original, err := objects.Get(t.Context(), placement.BornInstance, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		point := func(status string) {
			t.Helper()
			if _, err := objects.Patch(t.Context(), placement.BornInstance, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}
		for name, namespace := range map[string]string{"a member": member.Name, "the system": "kube-system", "the hash of its own UID": placement.Owner{Cluster: tn.cluster, UID: types.UID(box.ownerUID())}.Cold().Namespace()} {
			point(fmt.Sprintf(`{"podRef":{"name":"sandbox-0","namespace":%q}}`, namespace))
			eventually(t, "a reference to "+name+" is refused", func() error {
				if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code < 400 || strings.Contains(body, namespace) {
					return fmt.Errorf("code %d: %s", code, body)
				}
				return nil
			})
		}
		point(mustJSON(t, original.Object["status"]))
		eventually(t, "the true reference serves again", saysOwn)
	})
}

// labelledBox creates a Sandbox with labels.
func (tn *tenant) labelledBox(name string, labels map[string]string, spec map[string]any) *instance {
	tn.t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": sandbarv1alpha1.GroupVersion.String(), "kind": "Sandbox", "spec": spec}}
	obj.SetName(name)
	obj.SetLabels(labels)
	if _, err := tn.dyn.Resource(sandboxes).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	return tn.existing(sandboxes, name)
}
