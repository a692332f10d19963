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
	"k8s.io/apimachinery/pkg/util/intstr"
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

// egressTo is an egress policy that allows one rule.
func egressTo(rule networkingv1.NetworkPolicyEgressRule) *networkingv1.NetworkPolicySpec {
	return &networkingv1.NetworkPolicySpec{
		PodSelector: EgressPods(), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: []networkingv1.NetworkPolicyEgressRule{rule},
	}
}

// dnsAt allows the stack's DNS at one port. It listens at 5353 in its pod.
func dnsAt(number int32) *networkingv1.NetworkPolicySpec {
	rule := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
	}}}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))})
	}
	return egressTo(rule)
}

// Without the policies the cluster is like one that ignores them.
func TestPoliciesAndDNSAreTriedWithPods(t *testing.T) {
	client := prepare(t)
	type want struct {
		status metav1.ConditionStatus
		reason string
		says   []string
	}
	expect := func(settings Settings, policies, dns want) {
		t.Helper()
		got := check(t.Context(), client, placement.NetworkCheckNamespace, settings)
		for result, want := range map[Result]want{got.Policies: policies, got.DNS: dns} {
			if result.Status != want.status || result.Reason != want.reason {
				t.Errorf("got %+v, want %s for %s", result, want.status, want.reason)
			}
			for _, says := range want.says {
				if !strings.Contains(result.Message, says) {
					t.Errorf("%q does not say %q", result.Message, says)
				}
			}
		}
		pods, err := client.CoreV1().Pods(placement.NetworkCheckNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			t.Errorf("%d pods are left, %v", len(pods.Items), err)
		}
	}
	enforced := want{metav1.ConditionTrue, ReasonEnforced, []string{"incoming and outgoing"}}
	expect(Settings{Image: runner, Egress: dnsAt(5353)}, enforced, want{metav1.ConditionTrue, ReasonResolved, nil})
	expect(Settings{Image: runner, Egress: dnsAt(53)}, enforced,
		want{metav1.ConditionFalse, ReasonNotAllowed, []string{": no answer)", "k8s-app=kube-dns of namespace kube-system at port 53.", "spec.isolation.egress.dns"}})
	setPolicies(t, client, false)
	defer setPolicies(t, client, true)
	// A policy that allows everything is like one that is not in force.
	everything := egressTo(networkingv1.NetworkPolicyEgressRule{})
	expect(Settings{Image: runner, Egress: everything}, want{metav1.ConditionFalse, ReasonNotEnforced, []string{"incoming and outgoing"}},
		want{metav1.ConditionUnknown, ReasonNotInForce, []string{"NetworkPolicyEnforced"}})
	notTried := want{metav1.ConditionUnknown, ReasonFailed, nil}
	expect(Settings{Image: "localhost/sandbar/redis:dev", Egress: everything}, notTried, notTried)
}
