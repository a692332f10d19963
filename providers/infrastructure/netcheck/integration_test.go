// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package netcheck

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const runner = "localhost/sandbar/runner:dev"

// policies are those of install/manifests/runtime/15-netcheck.yaml.
func policies() map[string]networkingv1.PolicyType {
	return map[string]networkingv1.PolicyType{podShut: networkingv1.PolicyTypeIngress, podConfined: networkingv1.PolicyTypeEgress}
}

func prepare(t *testing.T) kubernetes.Interface {
	t.Helper()
	path := os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if path == "" {
		t.Fatal("STACK_RUNTIME_KUBECONFIG is not set: run `make test-integration`")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cfg)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: placement.NetworkCheckNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	setPolicies(t, client, true)
	return client
}

func setPolicies(t *testing.T, client kubernetes.Interface, there bool) {
	t.Helper()
	api := client.NetworkingV1().NetworkPolicies(placement.NetworkCheckNamespace)
	for name, direction := range policies() {
		var err error
		if there {
			_, err = api.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelPod: name}}, PolicyTypes: []networkingv1.PolicyType{direction},
			}}, metav1.CreateOptions{})
		} else {
			err = api.Delete(t.Context(), name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// Without the policies the cluster is like one that ignores them.
func TestPoliciesAreTriedWithPods(t *testing.T) {
	client := prepare(t)
	expect := func(status metav1.ConditionStatus, reason, said, image string) {
		t.Helper()
		got := check(t.Context(), client, image, "")
		if got.Status != status || got.Reason != reason || !strings.Contains(got.Message, said) {
			t.Errorf("got %+v, want %s for %s", got, status, reason)
		}
		pods, err := client.CoreV1().Pods(placement.NetworkCheckNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			t.Errorf("%d pods are left, %v", len(pods.Items), err)
		}
	}
	expect(metav1.ConditionTrue, ReasonEnforced, "incoming and outgoing", runner)
	setPolicies(t, client, false)
	defer setPolicies(t, client, true)
	expect(metav1.ConditionFalse, ReasonNotEnforced, "incoming and outgoing", runner)
	expect(metav1.ConditionUnknown, ReasonFailed, "", "localhost/sandbar/redis:dev")
}
