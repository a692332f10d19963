// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// podAsking is podSaying with resources, in YAML.
func podAsking(word, resources string) string {
	return strings.Replace(podSaying(word), "containers: [{", "containers: [{resources: "+resources+", ", 1)
}

// resizedPatch is a set's patch of the resources of the one container.
func resizedPatch(resources string) string {
	return `{spec: {containers: [{name: main, resources: ` + resources + `}]}}`
}

// has checks the resources of a sandbox's pod, as its spec and the kubelet say them.
func has(t *testing.T, pod *corev1.Pod, cpu, memory string) {
	t.Helper()
	asks, got := pod.Spec.Containers[0].Resources, pod.Status.ContainerStatuses[0].Resources
	if asks.Requests.Cpu().String() != cpu || asks.Limits.Memory().String() != memory {
		t.Errorf("the pod asks for %v", asks)
	}
	if got == nil || got.Requests.Cpu().String() != cpu || got.Limits.Memory().String() != memory {
		t.Errorf("the container has %v, want %s of cpu and at most %s of memory", got, cpu, memory)
	}
}

// hasEvent is nil if there is an event about the instance, with these words.
func (i *instance) hasEvent(reason, words string) error {
	list, err := i.tn.kube.CoreV1().Events("default").List(i.tn.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + i.name + ",reason=" + reason})
	if err != nil {
		return err
	}
	for _, event := range list.Items {
		if strings.Contains(event.Message, words) {
			return nil
		}
	}
	return fmt.Errorf("of %d events none says %q: %v", len(list.Items), words, list.Items)
}

// TestASandboxGetsTheResourcesOfItsTemplate: one that takes a sandbox which waited with less has what its template says,
// in the same pod, without a restart. What the node cannot give follows spec.resize.
func TestASandboxGetsTheResourcesOfItsTemplate(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	const full, little = `{requests: {cpu: 120m, memory: 48Mi}, limits: {cpu: 400m, memory: 96Mi}}`, `{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}`
	tn.mustTemplate("full", `{template: {spec: `+podAsking("full", full)+`}}`)
	tn.mustSet("little", `{replicas: 1, templateRef: {name: full}, patch: `+resizedPatch(little)+`}`)
	tn.waitSet("little", "has one", hasAvailable(1))
	pods := podsOf(t, tn.membersOf("little"))

	box := tn.box("resized", `{template: {templateRef: {kind: SandboxTemplate, name: full}}}`)
	start := box.started()
	pod := box.pod()
	t.Run("in place", func(t *testing.T) {
		if start.Type != sandbarv1alpha1.StartWarm || start.Resized == nil || start.Resized.From.Requests.Cpu().String() != "20m" || start.Resized.To.Requests.Cpu().String() != "120m" {
			t.Errorf("it started as %+v", start)
		}
		if pods[pod.UID] != box.id.Namespace() || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("its pod %s, restarted %d times, is none of %v", pod.UID, pod.Status.ContainerStatuses[0].RestartCount, pods)
		}
		has(t, pod, "120m", "96Mi")
		eventually(t, "an event says so", func() error {
			return box.hasEvent("Resized", "from cpu 20m (limit 100m), memory 32Mi (limit 64Mi) to cpu 120m (limit 400m), memory 48Mi (limit 96Mi)")
		})
	})
	t.Run("and so has its next pod", func(t *testing.T) {
		box.mustPatch(`{"spec":{"suspended":true}}`)
		eventually(t, "its pod is gone", func() error {
			_, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(box.id.Namespace()).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading its pod: %w", err)
			}
			return nil
		})
		box.mustPatch(`{"spec":{"suspended":false}}`)
		box.waitReady()
		has(t, box.pod(), "120m", "96Mi")
	})
	t.Run("not if the set, or the Sandbox, keeps what it has", func(t *testing.T) {
		tn.waitSet("little", "has one again", hasAvailable(1))
		keeps := tn.box("keeps", `{resize: Keep, template: {templateRef: {kind: SandboxTemplate, name: full}}}`)
		if start := keeps.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized != nil || start.Reason != "" {
			t.Errorf("it started as %+v", start)
		}
		has(t, keeps.pod(), "20m", "64Mi")
	})
	t.Run("and what no node has", func(t *testing.T) {
		const huge = `{requests: {cpu: "4", memory: 48Mi}, limits: {cpu: "8", memory: 96Mi}}`
		tn.mustTemplate("huge", `{template: {spec: `+podAsking("huge", huge)+`}}`)
		tn.mustSet("dwarf", `{replicas: 1, templateRef: {name: huge}, patch: `+resizedPatch(little)+`}`)
		tn.waitSet("dwarf", "has one", hasAvailable(1))
		taker := tn.box("takes-any", `{resize: BestEffort, template: {templateRef: {kind: SandboxTemplate, name: huge}}}`)
		if start := taker.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized != nil || start.Reason != sandbarv1alpha1.StartResizeInfeasible {
			t.Errorf("it started as %+v", start)
		}
		has(t, taker.pod(), "20m", "64Mi")
		eventually(t, "an event says so", func() error { return taker.hasEvent("ResizeInfeasible", "its node could not give it") })

		tn.waitSet("dwarf", "has one again", hasAvailable(1))
		all := tn.box("wants-all", `{template: {templateRef: {kind: SandboxTemplate, name: huge}}}`)
		eventually(t, "one that requires it starts cold", func() error {
			obj, err := all.get()
			if err != nil {
				return err
			}
			if reason, _, _ := unstructured.NestedString(obj.Object, "status", "start", "reason"); reason != sandbarv1alpha1.StartResizeInfeasible {
				return fmt.Errorf("it started for %q: %v", reason, obj.Object["status"])
			}
			return nil
		})
	})
	t.Run("a set that could not give them is refused", func(t *testing.T) {
		tn.mustSet("other-class", `{replicas: 1, templateRef: {name: full}, patch: `+resizedPatch(`{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 20m, memory: 32Mi}}`)+`}`)
		tn.waitSet("other-class", "says why", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return len(s.Conditions) > 0 && s.Conditions[0].Reason == sandbarv1alpha1.SandboxSetQosClassChanges && strings.Contains(s.Conditions[0].Message, "set spec.resizeOnClaim to Keep")
		})
	})
}
