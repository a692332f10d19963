// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/netcheck"
)

// reportNetwork writes what the last check of network policies and DNS found out, and has the next one go by
// the settings in force.
func (r *reconciler) reportNetwork(provider *sandbarv1alpha1.InfrastructureProvider, spec *sandbarv1alpha1.InfrastructureProviderSpec) {
	settings := netcheck.Settings{Image: spec.Images[runnerImage], RuntimeClass: spec.Isolation.RuntimeClassName}
	if r.opts.Egress != nil {
		egress, err := r.opts.Egress(spec, netcheck.EgressPods())
		if err != nil { // somebody has changed what was accepted
			setCondition(provider, sandbarv1alpha1.ProviderDNSReachable, metav1.ConditionUnknown, reasonMisconfigured,
				"the settings in force make no egress policy: "+err.Error())
		} else {
			settings.Egress = &egress
		}
	}
	r.network.Use(settings)
	results, ok := r.network.Last()
	if !ok {
		return
	}
	for condition, result := range map[string]netcheck.Result{
		sandbarv1alpha1.ProviderNetworkPolicyEnforced: results.Policies, sandbarv1alpha1.ProviderDNSReachable: results.DNS,
	} {
		if result.Status != "" {
			setCondition(provider, condition, result.Status, result.Reason, result.Message)
		}
	}
}
