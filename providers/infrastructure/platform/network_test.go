// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/netcheck"
)

// A change of where DNS is reaches what placements go by, and a lookup is tried with it.
func TestAChangeOfDNSIsInForceAndTried(t *testing.T) {
	o := newOperator(t, sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}})
	var built []sandbarv1alpha1.Egress
	o.opts.Egress = func(spec *sandbarv1alpha1.InfrastructureProviderSpec, own metav1.LabelSelector) (networkingv1.NetworkPolicySpec, error) {
		if metav1.FormatLabelSelector(&own) != "sandbar.dev/netcheck=dns" {
			t.Errorf("the policy is about %v", own)
		}
		built = append(built, spec.Isolation.Egress)
		return networkingv1.NetworkPolicySpec{PodSelector: own}, nil
	}
	refuse := false
	o.opts.Try = func(context.Context, *sandbarv1alpha1.InfrastructureProviderSpec) error {
		if refuse {
			return ErrRefused
		}
		return nil
	}
	set := func(namespace string) *metav1.Condition {
		return o.change(func(s *sandbarv1alpha1.InfrastructureProviderSpec) {
			s.Isolation.Egress.DNS = &sandbarv1alpha1.EgressDNS{Namespace: namespace}
		})
	}
	inForce := func() string {
		_, spec := o.published()
		return spec.Isolation.Egress.DNS.Namespace
	}
	if c := set("openshift-dns"); c.Status != metav1.ConditionTrue || inForce() != "openshift-dns" {
		t.Errorf("it says %+v, and %s is in force", c, inForce())
	}
	if len(built) != 1 || built[0].DNS.Namespace != "openshift-dns" {
		t.Errorf("tried is %+v", built)
	}
	refuse = true
	if c := set("refused"); c.Status != metav1.ConditionFalse || inForce() != "openshift-dns" {
		t.Errorf("it says %+v, and %s is in force", c, inForce())
	}
	if len(built) != 2 || built[1].DNS.Namespace != "openshift-dns" {
		t.Errorf("what was refused is tried: %+v", built)
	}
}

func TestWhatIsKnownOfTheNetworkIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		egress error
		dns    string
	}{
		"DNS is tried": {nil, netcheck.ReasonNoImage},
		"settings that somebody has made useless": {errors.New("no address"), reasonMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator(t, sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}})
			o.opts.Egress = func(*sandbarv1alpha1.InfrastructureProviderSpec, metav1.LabelSelector) (networkingv1.NetworkPolicySpec, error) {
				return networkingv1.NetworkPolicySpec{}, tc.egress
			}
			tried := make(chan struct{})
			o.network = netcheck.New(nil, "", func(context.Context) { close(tried) })
			done := make(chan error, 1)
			ctx, stop := context.WithCancel(t.Context())
			go func() { done <- o.network.Start(ctx) }()
			o.run(t)
			<-tried
			got := o.run(t)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			for condition, reason := range map[string]string{
				sandbarv1alpha1.ProviderNetworkPolicyEnforced: netcheck.ReasonNoImage, sandbarv1alpha1.ProviderDNSReachable: tc.dns,
			} {
				c := meta.FindStatusCondition(got.Status.Conditions, condition)
				if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != reason || (tc.egress != nil && reason == reasonMisconfigured && !strings.Contains(c.Message, tc.egress.Error())) {
					t.Errorf("%s is %+v, want Unknown for %s", condition, c, reason)
				}
			}
			if !meta.IsStatusConditionTrue(got.Status.Conditions, sandbarv1alpha1.ProviderReady) {
				t.Error("Ready depends on it")
			}
		})
	}
}
