// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"slices"
)

// podKinds are the kinds of Kubernetes itself that run pods.
var podKinds = []string{"Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}

// RunsPods reports whether a graph, the spec of a ResourceGraphDefinition as JSON, makes podKinds of
// Kubernetes' own kinds. Other kinds may run pods, too; those are not known.
func RunsPods(graph []byte) bool {
	var spec struct {
		Resources []struct {
			Template struct {
				Kind string `json:"kind"`
			} `json:"template"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(graph, &spec); err != nil {
		return false
	}
	for _, resource := range spec.Resources {
		if slices.Contains(podKinds, resource.Template.Kind) {
			return true
		}
	}
	return false
}
