// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// +groupName=sandbar.dev

// Schemas makes controller-gen write the schemas of SandboxGroups and of Sandboxes with workloads, see SpecSchema.
type Schemas struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   sandbarv1alpha1.SandboxGroupSpec   `json:"spec"`
	Status sandbarv1alpha1.SandboxGroupStatus `json:"status"`

	Workloads       sandbarv1alpha1.SandboxWorkloadsSpec   `json:"workloads"`
	WorkloadsStatus sandbarv1alpha1.SandboxWorkloadsStatus `json:"workloadsStatus"`
}
