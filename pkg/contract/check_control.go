// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"fmt"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// checkControlAuth refuses proofs that no pod would get: a Template that asks for them and has no
// pod that takes them would go on sending the token.
func checkControlAuth(spec *sandbarv1alpha1.TemplateSpec) []Problem {
	const field = "spec.dataPlane.controlAuth"
	dp := &spec.DataPlane
	switch {
	case dp.ControlAuth == "" || dp.ControlAuth == sandbarv1alpha1.ControlAuthToken:
		return nil
	case dp.ControlAuth != sandbarv1alpha1.ControlAuthProof:
		return []Problem{{field, fmt.Sprintf("must be %s or %s, not %q", sandbarv1alpha1.ControlAuthToken, sandbarv1alpha1.ControlAuthProof, dp.ControlAuth)}}
	case spec.Development != nil:
		return nil // whose runners take them
	case dp.TokenSecretRef == "":
		return []Problem{{field, "needs tokenSecretRef: a proof is one of having the token"}}
	case !bytes.Contains(spec.Graph.Raw, []byte(controlproof.PodUIDVariable)):
		return []Problem{{field, "needs a container with the variable " + controlproof.PodUIDVariable + " from fieldRef metadata.uid: pods without it get the token itself"}}
	}
	return nil
}

// checkPodLabels refuses pods behind a Service that the data plane would not dial, for want of the
// placement's label. It looks at what is spelled out; where a selector or labels are an expression,
// the author sees it when an instance runs.
func checkPodLabels(spec *sandbarv1alpha1.TemplateSpec) []Problem {
	var graph struct {
		Resources []struct {
			ID       string         `json:"id"`
			Template map[string]any `json:"template"`
		} `json:"resources"`
	}
	if !leadsToServices(Complete(spec)) || json.Unmarshal(spec.Graph.Raw, &graph) != nil {
		return nil // what is no list of resources is told elsewhere
	}
	var problems []Problem
	for _, service := range graph.Resources {
		selector := literal(service.Template, "spec", "selector")
		if service.Template["kind"] != "Service" || len(selector) == 0 {
			continue
		}
		for i, workload := range graph.Resources {
			path, labels := podLabels(workload.Template)
			if labels == nil || !selects(selector, labels) {
				continue
			}
			if _, ok := labels[placement.LabelInstanceUID]; !ok {
				problems = append(problems, Problem{
					fmt.Sprintf("spec.graph.resources[%d].template.%s", i, path),
					fmt.Sprintf(`must have %s: ${schema.metadata.labels["%s"]}, since the Service %q leads to these pods: the data plane dials no others`,
						placement.LabelInstanceUID, placement.LabelInstanceUID, service.ID),
				})
			}
		}
	}
	return problems
}

func leadsToServices(dp *sandbarv1alpha1.DataPlane) bool {
	for _, e := range locate(dp) {
		if e.ServiceRef != "" {
			return true
		}
	}
	return false
}

// podLabels are the labels of the pods that an object makes, or of the Pod that it is; nil if they
// are not spelled out.
func podLabels(object map[string]any) (path string, labels map[string]any) {
	switch object["kind"] {
	case "Pod":
		return "metadata.labels", literal(object, "metadata", "labels")
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
		return "spec.template.metadata.labels", literal(object, "spec", "template", "metadata", "labels")
	}
	return "", nil
}

// literal is an object inside an object; nil if it is not spelled out.
func literal(object map[string]any, path ...string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

func selects(selector, labels map[string]any) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}
