// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestWhatExitCodesOfLookupsMeanTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		under, free int
		status      metav1.ConditionStatus
		reason      string
		says        []string
	}{
		"names resolve": {netcheck.Resolved, netcheck.Resolved, metav1.ConditionTrue, ReasonResolved, nil},
		"names resolve, though another pod was less lucky": {netcheck.Resolved, netcheck.Unresolved, metav1.ConditionTrue, ReasonResolved, nil},
		"the policy stands in the way": {
			netcheck.Unresolved, netcheck.Resolved, metav1.ConditionFalse, ReasonNotAllowed,
			[]string{"(192.0.2.1: no answer)", "DNS at SETTING.", "Correct spec.isolation.egress.dns", "sandbar-provider init"},
		},
		"DNS does not answer anybody": {
			netcheck.Unresolved, netcheck.Unresolved, metav1.ConditionFalse, ReasonNoAnswer,
			[]string{"(192.0.2.1: no answer)", "Look at the runtime cluster's DNS"},
		},
		"a policy that does not hold says nothing": {
			netcheck.Unconfined, netcheck.Resolved, metav1.ConditionUnknown, ReasonNotInForce,
			[]string{"NetworkPolicyEnforced", "spec.isolation.egress.deniedCIDRs"},
		},
	} {
		got, err := judgeDNS(tc.under, tc.free, "192.0.2.1: no answer", "SETTING")
		if err != nil || got.Status != tc.status || got.Reason != tc.reason || got.Message == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, says := range tc.says {
			if !strings.Contains(got.Message, says) {
				t.Errorf("%s: %q does not say %q", name, got.Message, says)
			}
		}
	}
	// A runner without the command, one that was killed, one of the other command.
	for _, code := range []int{0, 1, 2, 137, netcheck.Blocked} {
		for _, codes := range [][2]int{{code, netcheck.Resolved}, {netcheck.Resolved, code}} {
			if _, err := judgeDNS(codes[0], codes[1], "", ""); err == nil || !strings.Contains(err.Error(), "spec.images.runner") {
				t.Errorf("exit code %d: %v", code, err)
			}
		}
	}
	// No policy is about this pod, so that none can be out of force.
	if _, err := judgeDNS(netcheck.Resolved, netcheck.Unconfined, "", ""); err == nil {
		t.Error("a pod without a policy was out of one")
	}
}

func TestWhatAPolicyAllowsIsSaid(t *testing.T) {
	if got := allowed(egress()); got != "the pods k8s-app=kube-dns of namespace kube-system at port 53, 5353; 169.254.20.10/32 at port 53" {
		t.Errorf("it says %q", got)
	}
}

// egress is an egress policy with a rule of each sort.
func egress() networkingv1.NetworkPolicySpec {
	port := func(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))}
	}
	return networkingv1.NetworkPolicySpec{
		PodSelector: EgressPods(), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{
				To: []networkingv1.NetworkPolicyPeer{{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}},
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{port("UDP", 53), port("TCP", 53), port("UDP", 5353), port("TCP", 5353)},
			},
			{
				To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "169.254.20.10/32"}}},
				Ports: []networkingv1.NetworkPolicyPort{port("UDP", 53), port("TCP", 53)},
			},
			{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}}}},
		},
	}
}

func TestWhatAPodSaysIsALineOfBoundedLength(t *testing.T) {
	for said, want := range map[string]string{
		"":                                     "",
		"10.96.0.10: no answer\n":              "10.96.0.10: no answer",
		"10.96.0.10: no answer\nand much else": "10.96.0.10: no answer",
		"\x1b[31mred\x00":                      "?[31mred?",
		"\xff\xfe":                             "?",
		strings.Repeat("ä", 200):               strings.Repeat("ä", 128) + "…",
	} {
		if got := finding(said); got != want {
			t.Errorf("of %q it is %q, want %q", said, got, want)
		}
	}
}

func TestThePolicyIsThatOfTheSettings(t *testing.T) {
	client := fake.NewClientset()
	written := func(spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
		t.Helper()
		c := &checker{client: client, namespace: placement.NetworkCheckNamespace, settings: Settings{Egress: &spec}}
		if err := c.applyEgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		policy, err := client.NetworkingV1().NetworkPolicies(placement.NetworkCheckNamespace).Get(t.Context(), podDNS, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	spec := egress()
	if got := written(spec); got.Spec.PodSelector.MatchLabels[labelPod] != podDNS || allowed(got.Spec) != allowed(spec) || len(got.Spec.Egress) != 3 {
		t.Errorf("it is %+v", got.Spec)
	}
	spec.Egress = spec.Egress[1:2]
	if got := written(spec); allowed(got.Spec) != "169.254.20.10/32 at port 53" {
		t.Errorf("after a change it is %+v", got.Spec)
	}
}

// What an earlier version of init has prepared lets the controllers write no policy.
func TestWhatOnlyInitCanMendIsSaid(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(networkingv1.Resource("networkpolicies"), podDNS, nil)
	})
	spec := egress()
	c := &checker{client: client, namespace: placement.NetworkCheckNamespace, settings: Settings{Egress: &spec}}
	err := c.beginDNS(t.Context(), "192.0.2.1:8080")
	if err == nil {
		t.Fatal("the policy was written")
	}
	got := c.ofDNS(failedDNS(err))
	if got.Status != metav1.ConditionUnknown || got.Reason != ReasonFailed || !strings.Contains(got.Message, "run sandbar-provider init again") {
		t.Errorf("it is %+v", got)
	}
}

// Where the policy is not known, nothing is said of DNS, and no pod is started for it.
func TestWithoutAPolicyNothingIsSaidOfDNS(t *testing.T) {
	client := fake.NewClientset()
	c := &checker{client: client, namespace: placement.NetworkCheckNamespace}
	if err := c.beginDNS(t.Context(), "192.0.2.1:8080"); err != nil || len(client.Actions()) > 0 {
		t.Errorf("%v, %v", client.Actions(), err)
	}
	if got := c.ofDNS(failedDNS(apierrors.NewBadRequest("x"))); got != (Result{}) {
		t.Errorf("it says %+v", got)
	}
}
