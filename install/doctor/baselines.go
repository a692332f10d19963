// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
)

// checkBaselines reports Baselines that are not Ready. Sandboxes work without them, so these are warnings.
func (e *examination) checkBaselines(ctx context.Context) []Finding {
	var list sandbarv1alpha1.BaselineList
	if err := e.kcp.List(ctx, &list); err != nil {
		return one(failure("sandbar-provider init", "listing the Baselines: %v", err))
	}
	if len(list.Items) == 0 {
		return one(passed("there are no Baselines"))
	}
	var findings []Finding
	for i := range list.Items {
		b := &list.Items[i]
		ready := meta.FindStatusCondition(b.Status.Conditions, sandbarv1alpha1.BaselineReady)
		switch {
		case ready == nil:
			findings = append(findings, warning("see whether sandbar-provider controllers runs", "the Baseline %s has no condition", b.Name))
		case ready.Status != metav1.ConditionTrue && ready.Reason == "NotAllowed":
			findings = append(findings, warning(baseline.GrantCommand(b.Name), "the Baseline %s is not Ready: %s: %s", b.Name, ready.Reason, ready.Message))
		case ready.Status != metav1.ConditionTrue:
			findings = append(findings, warning("", "the Baseline %s is not Ready: %s: %s", b.Name, ready.Reason, ready.Message))
		}
	}
	if len(findings) == 0 {
		return one(passed("%d Baselines", len(list.Items)))
	}
	return findings
}

// checkBaselineGateways looks at the Gateways by which requests come to copies of workloads. Sandboxes work without them, so
// these are warnings.
func (e *examination) checkBaselineGateways(ctx context.Context) []Finding {
	var list sandbarv1alpha1.BaselineList
	if err := e.kcp.List(ctx, &list); err != nil {
		return one(failure("sandbar-provider init", "listing the Baselines: %v", err))
	}
	var findings []Finding
	seen := map[string]bool{}
	for i := range list.Items {
		for _, ref := range list.Items[i].Spec.Routing.Gateway.ParentRefs {
			name := ref.Namespace + "/" + ref.Name
			if seen[name] {
				continue
			}
			seen[name] = true
			findings = append(findings, e.gatewayProblems(ctx, warning, "make it, or take it out of spec.routing of the Baseline "+list.Items[i].Name, ref.Namespace, ref.Name)...)
		}
	}
	switch {
	case len(seen) == 0:
		return one(skipped("no Baseline has Gateways (spec.routing.gateway)"))
	case len(findings) == 0:
		return one(passed("%d Gateways of Baselines are programmed, and take routes of placements", len(seen)))
	}
	return findings
}
