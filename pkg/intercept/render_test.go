// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What somebody changes by hand, or a former version has written, is seen.
func TestAChangeOfWhatStandsForAServiceIsSeen(t *testing.T) {
	for name, change := range map[string]func(all *objects){
		"the budget keeps nodes":         func(all *objects) { all.budget.Spec.UnhealthyPodEvictionPolicy = nil },
		"clients stay with a pod":        func(all *objects) { all.behind.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
		"pods behind get requests early": func(all *objects) { all.behind.Spec.PublishNotReadyAddresses = true },
		"other pods are behind":          func(all *objects) { all.behind.Spec.Selector["app"] = "x" },
		"the proxies run on other nodes": func(all *objects) { all.deployment.Spec.Template.Spec.NodeSelector = nil },
		"pods have other ports":          func(all *objects) { all.deployment.Spec.Template.Annotations[annotationPorts] = "x" },
		"one missed probe takes a proxy out": func(all *objects) {
			all.deployment.Spec.Template.Spec.Containers[0].ReadinessProbe.FailureThreshold = 1
		},
		"other zones get requests": func(all *objects) { all.behind.Spec.TrafficDistribution = nil },
	} {
		t.Run(name, func(t *testing.T) {
			service := serviceOf(t, "{spec: {trafficDistribution: PreferClose}}")
			is, wanted := render(service, nil, "i"), render(service, nil, "i")
			same := func() bool {
				return isBudget(is.budget, wanted.budget) && isBehind(is.behind, wanted.behind) && isDeployment(is.deployment, wanted.deployment)
			}
			if !same() {
				t.Fatal("what is as it is to be would be written again")
			}
			if change(&is); same() {
				t.Error("it is not seen")
			}
		})
	}
}

// The families of addresses of a Service are fixed when it is made: an update that has others would be refused for ever.
func TestOtherFamiliesOfAddressesAreNoReasonForAWrite(t *testing.T) {
	is := render(serviceOf(t, "{}"), nil, "i").behind
	is.Spec.IPFamilies, is.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	wanted := render(serviceOf(t, "{spec: {ipFamilies: [IPv6], ipFamilyPolicy: SingleStack}}"), nil, "i").behind
	if !isBehind(is, wanted) {
		t.Error("it would be written")
	}
}
