// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runtimecluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestOfAPodOnlyWhatAStatusIsMadeOfIsKept(t *testing.T) {
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "a", UID: "u", ResourceVersion: "7",
				Labels: map[string]string{"a": "b", placement.LabelComponent: "web", placement.LabelDevelops: "web", placement.LabelSessionUID: "s"}, Annotations: map[string]string{"a": "b"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "198.51.100.1",
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodInitialized}, {Type: corev1.PodReadyToStartContainers}, {Type: corev1.ContainersReady}},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "app", Image: "i", ImageID: "sha", Ready: true, RestartCount: 2,
				}},
			},
		}
	}
	ours := placement.ID{Origin: "c", UID: "u"}.Namespace()
	meta := metav1.ObjectMeta{Namespace: ours, Name: "a", UID: "u", ResourceVersion: "7"}
	elsewhere, labelled := meta, meta
	labelled.Labels = map[string]string{placement.LabelComponent: "web", placement.LabelDevelops: "web", placement.LabelSessionUID: "s"}
	elsewhere.Namespace = "kube-system"
	for _, test := range []struct {
		namespace string
		want      *corev1.Pod
	}{
		{ours, &corev1.Pod{ObjectMeta: labelled, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodInitialized}, {Type: corev1.PodReadyToStartContainers}},
			InitContainerStatuses: []corev1.ContainerStatus{},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", Image: "i", Ready: true, RestartCount: 2}},
		}}},
		{"kube-system", &corev1.Pod{ObjectMeta: elsewhere}},
	} {
		got, err := keepOfPod(pod(test.namespace))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("in %s (-want +got):\n%s", test.namespace, diff)
		}
	}
}

func TestWhatIsTheSameInAllPlacementsIsKeptOnce(t *testing.T) {
	keep := keeper()
	policy := func(namespace string, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "egress", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}}
		p.Spec.PolicyTypes = types
		kept, err := keep(p.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		p.ManagedFields = nil
		if diff := cmp.Diff(p, kept); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return kept.(*networkingv1.NetworkPolicy)
	}
	a, b := policy("a", networkingv1.PolicyTypeEgress), policy("b", networkingv1.PolicyTypeEgress)
	if &a.Spec.PolicyTypes[0] != &b.Spec.PolicyTypes[0] {
		t.Error("the same policy is kept twice")
	}
	policy("tampered with", networkingv1.PolicyTypeIngress)
	policy("c", networkingv1.PolicyTypeEgress)

	pods := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	kept, err := keep(&corev1.ResourceQuota{
		Spec: corev1.ResourceQuotaSpec{Hard: pods}, Status: corev1.ResourceQuotaStatus{Hard: pods, Used: pods},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: pods}}, kept); diff != "" {
		t.Errorf("a quota (-want +got):\n%s", diff)
	}
}
