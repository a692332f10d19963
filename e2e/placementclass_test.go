// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// changeSettings changes the spec of the InfrastructureProvider; the test changes it back in the end.
func changeSettings(t *testing.T, to, back string) {
	t.Helper()
	dyn := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))
	write := func(spec string) error {
		_, err := dyn.Resource(providers).Patch(context.WithoutCancel(t.Context()), "default", types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
		return err
	}
	if err := write(to); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := write(back); err != nil {
			t.Errorf("taking the settings back: %v", err)
		}
	})
	waitProvider(t, &note{dyn: dyn}, "PlatformPublished", metav1.ConditionTrue)
}

// TestAPlacementClassIsTheOperatorsWord: a set waits in the kind of place that it names, a Sandbox that takes one of it stays
// there, and what a place is only the operator says.
func TestAPlacementClassIsTheOperatorsWord(t *testing.T) {
	long(t, "unit tests have most of its promise, and it changes the provider's settings")
	breaks(t)
	changeSettings(t, `{"placementClasses":{"spot":{"displayName":"Spot","cost":"cheap","nodeSelector":{"kubernetes.io/os":"linux"},"tolerations":[{"key":"spot","operator":"Exists"}]}}}`, `{"placementClasses":null}`)
	tn := setTenant(t, "alice")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("elsewhere", `{templateRef: {name: own}, placementClass: nowhere}`)
	tn.waitSet("elsewhere", "says that there is no such class", func(s sandbarv1alpha1.SandboxSetStatus) bool {
		return len(s.Conditions) > 0 && s.Conditions[0].Reason == sandbarv1alpha1.PlacementClassUnknown && strings.Contains(s.Conditions[0].Message, "spot")
	})
	tn.mustSet("cheap", `{templateRef: {name: own}, placementClass: spot}`)
	tn.waitSet("cheap", "has one", hasAvailable(1))
	pods := podsOf(t, tn.membersOf("cheap"))
	box := tn.box("in-spot", `{prewarm: Require, template: {templateRef: {kind: SandboxTemplate, name: own}}}`)
	if start := box.started(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "cheap" {
		t.Errorf("it started as %+v", start)
	}
	inSpot := func() {
		spec := box.pod().Spec
		if spec.NodeSelector["kubernetes.io/os"] != "linux" || !slices.ContainsFunc(spec.Tolerations, func(is corev1.Toleration) bool { return is.Key == "spot" }) {
			t.Errorf("its pod has the node selector %v and the tolerations %v", spec.NodeSelector, spec.Tolerations)
		}
	}
	inSpot()
	if uid := box.pod().UID; pods[uid] == "" {
		t.Errorf("its pod %s is none of %v", uid, pods)
	}
	box.mustPatch(`{"spec":{"suspended":true}}`)
	eventually(t, "it is suspended", func() error { return phaseError(box, "Suspended") })
	box.mustPatch(`{"spec":{"suspended":false}}`)
	box.waitReady()
	inSpot()
}
