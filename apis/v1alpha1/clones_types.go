// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// CloneFields say that instances of the kind are copies of workloads that a Baseline designates, and where the graph takes
// the copies from. Sandbar adds the field baselineRef to the schema beside that of the components.
type CloneFields struct {
	// From is the field of the tenant's spec: the list of the components, each a workload of the Baseline and what is
	// different in its copy. Sandbar adds it to the schema; the graph must not have it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	From string `json:"from"`

	// To is the field of the graph's spec, "[]object | required=true", that gets a copy for each component, in the order
	// of their names: name, labels, annotations and spec of a Deployment, and service with the same of a Service. Tenants do
	// not see it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	To string `json:"to"`

	// Claims is the field of the graph's spec, "[]object | required=true", that gets the claims of the copies' volumes: name,
	// labels and spec of a PersistentVolumeClaim. Tenants do not see it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	Claims string `json:"claims"`
}
