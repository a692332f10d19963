// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"maps"
	"slices"
)

// Where DNS is if an InfrastructureProvider does not say it: where kubeadm and most others install it.
const (
	DefaultDNSNamespace     = "kube-system"
	DefaultDNSPodLabel      = "k8s-app"
	DefaultDNSPodLabelValue = "kube-dns"
	DefaultDNSPort          = 53
)

// EgressDNS selects the DNS servers that sandboxes may reach, by UDP and TCP: the pods of the
// cluster's DNS, and single addresses.
type EgressDNS struct {
	// Namespace is the one of the pods of the cluster's DNS, for example openshift-dns. Defaults to
	// kube-system.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// PodLabels are labels that these pods have, all of them. Defaults to k8s-app=kube-dns.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	// +mapType=atomic
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// Ports are those at which the pods listen, for example 5353: a network policy sees the ports of
	// pods, and not those of the Service in front of them. Defaults to 53.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=atomic
	// +optional
	Ports []int32 `json:"ports,omitempty"`

	// Addresses are DNS servers that no selector of pods covers: caches on the nodes' own network
	// (169.254.20.10 of NodeLocal DNSCache) and servers outside of the cluster. Each is one IPv4 or
	// IPv6 address, alone or with /32 or /128, and sandboxes may reach it at port 53 and at Ports. Most
	// network plugins apply a policy after the cluster IP of a Service is translated to the address of
	// a pod; for one that applies it before, add the cluster IP of the DNS Service. Defaults to none.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F.:]+(/32|/128)?$`
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// WithDefaults returns a copy with the default of each field that is not set; dns may be nil.
func (dns *EgressDNS) WithDefaults() EgressDNS {
	if dns == nil {
		dns = &EgressDNS{}
	}
	all := EgressDNS{
		Namespace: cmp.Or(dns.Namespace, DefaultDNSNamespace), PodLabels: maps.Clone(dns.PodLabels),
		Ports: slices.Clone(dns.Ports), Addresses: slices.Clone(dns.Addresses),
	}
	if len(all.PodLabels) == 0 {
		all.PodLabels = map[string]string{DefaultDNSPodLabel: DefaultDNSPodLabelValue}
	}
	if len(all.Ports) == 0 {
		all.Ports = []int32{DefaultDNSPort}
	}
	return all
}
