// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/remotecommand"
)

// TestAPlacementIsBounded: what a sandbox may take of its node, tried against the API server and the
// kubelet that enforce it.
func TestAPlacementIsBounded(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	pod := func(container, volumes string) string {
		return `{template: {podTemplate: {spec: {containers: [{name: main, image: ` + toolchain + `, command: [sleep, "1000"]` + container + `}], volumes: [` + volumes + `]}}}}`
	}
	box := tn.box("box", pod(`, volumeMounts: [{name: memory, mountPath: /memory}, {name: disk, mountPath: /disk}], resources: {limits: {memory: 256Mi}}`,
		`{name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}}, {name: disk, emptyDir: {}}`))
	t.Run("zeros and absurd numbers are refused, and the message says what to give", func(t *testing.T) {
		for name, row := range map[string]struct {
			spec  string
			words []string
		}{
			"no-limit":       {pod(`, resources: {limits: {memory: "0"}}`, ""), []string{"SpecRefused", "spec.containers[0].resources.limits[memory]", "give 4Mi at least"}},
			"no-request":     {pod(`, resources: {requests: {cpu: "0", memory: "0"}, limits: {cpu: "0", memory: "0"}}`, ""), []string{"SpecRefused", "requests[cpu]", "too little"}},
			"nothing-at-all": {pod(`, resources: {limits: {memory: 0m}}`, ""), []string{"SpecRefused", "too little"}},
			"absurd":         {pod(`, resources: {limits: {memory: "1e30"}}`, ""), []string{"SpecRefused", "too much"}},
			"endless-tmpfs":  {pod("", `{name: m, emptyDir: {medium: Memory, sizeLimit: "0"}}`), []string{"SpecRefused", "is no limit"}},
			"device":         {pod(`, resources: {limits: {example.com/gpu: 1}}`, ""), []string{"SpecRefused", "spec.quota.hard[requests.example.com/gpu]"}},
			"hugepages":      {pod(`, resources: {limits: {hugepages-2Mi: 2Mi}}`, ""), []string{"SpecRefused", "hugepages-2Mi"}},
		} {
			tn.box(name, row.spec).waitRefused(row.words...)
		}
	})
	box.waitReady()
	running := box.pod()
	t.Run("what is left out is filled in", func(t *testing.T) {
		limits := running.Spec.Containers[0].Resources.Limits
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if value := limits[name]; value.Sign() <= 0 {
				t.Errorf("the limit of %s is %s", name, value.String())
			}
		}
		for _, volume := range running.Spec.Volumes {
			if volume.EmptyDir != nil && (volume.EmptyDir.SizeLimit == nil || volume.EmptyDir.SizeLimit.Sign() <= 0) {
				t.Errorf("volume %s has no size", volume.Name)
			}
		}
	})
	t.Run("a graph is held to them as well", func(t *testing.T) {
		kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
		zero := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0")}
		for what, resources := range map[string]corev1.ResourceRequirements{
			"zeros":                {Requests: zero, Limits: zero},
			"a disk without limit": {Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("0")}},
			"more than a pod may":  {Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("17Gi")}},
		} {
			sample := running.DeepCopy()
			sample.ObjectMeta = metav1.ObjectMeta{Name: "sample", Namespace: running.Namespace}
			sample.Spec.NodeName, sample.Spec.Containers[0].Resources = "", resources
			_, err := kube.CoreV1().Pods(running.Namespace).Create(t.Context(), sample, metav1.CreateOptions{DryRun: inDryRun})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "usage per") {
				t.Errorf("%s: %v, want the LimitRange's refusal", what, err)
			}
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("51Gi")}},
		}}
		if _, err := kube.CoreV1().PersistentVolumeClaims(running.Namespace).Create(t.Context(), claim, metav1.CreateOptions{DryRun: inDryRun}); !apierrors.IsForbidden(err) {
			t.Errorf("a volume of 51Gi: %v", err)
		}
	})
	t.Run("a volume in memory ends at its size", func(t *testing.T) {
		var out bytes.Buffer
		err := box.remote(t.Context(), t, tn.token, "exec", remotecommand.StreamOptions{Stderr: &out},
			"dd", "if=/dev/zero", "of=/memory/x", "bs=1M", "count=32")
		if err == nil || !strings.Contains(out.String(), "No space left") {
			t.Errorf("32 MiB fit into 8: %v, %s", err, out.String())
		}
	})
}

// TestAnOverfilledDiskEndsThePodAndNotItsNode writes more to a volume than its size.
func TestAnOverfilledDiskEndsThePodAndNotItsNode(t *testing.T) {
	long(t, "the kubelet looks at volumes every ten seconds, and evicts")
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	greedy := tn.box("greedy", `{template: {podTemplate: {spec: {containers: [{name: main, image: `+toolchain+`, command: [sleep, "1000"],
		volumeMounts: [{name: disk, mountPath: /disk}]}], volumes: [{name: disk, emptyDir: {sizeLimit: 8Mi}}]}}}}`)
	greedy.waitReady()
	first := greedy.pod()
	if err := greedy.remote(t.Context(), t, tn.token, "exec", remotecommand.StreamOptions{Stderr: io.Discard}, "dd", "if=/dev/zero", "of=/disk/x", "bs=1M", "count=32"); err != nil {
		t.Fatal(err)
	}
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	eventually(t, "the pod is evicted and replaced", func() error {
		now, err := kube.CoreV1().Pods(first.Namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
		if err == nil && now.UID == first.UID {
			err = errors.New("it is the same: " + string(now.Status.Phase) + " " + now.Status.Reason)
		}
		return err
	})
	greedy.waitReady()
}
