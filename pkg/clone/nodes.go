// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// searchSuffix makes a search domain of a namespace.
const searchSuffix = ".svc.cluster.local"

// The most that Kubernetes takes of dnsConfig.searches: how many, and how many characters with a space between them.
const (
	maxSearches        = 32
	maxSearchesLetters = 2048
)

// nodeLabels are those of Kubernetes' own labels of nodes by which a tenant may choose. The rest names single nodes
// (kubernetes.io/hostname), their roles, and what an operator sets nodes apart by (node-restriction.kubernetes.io).
var nodeLabels = []string{
	corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelInstanceTypeStable,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
}

// keepNodes puts back what the workload says of its nodes and the patch has left out: a patch that sets all of
// nodeSelector, as the one of the design's example, would otherwise take the copy out of the pool of its workload.
func (r *rendering) keepNodes(source *corev1.PodTemplateSpec) {
	var kept []string
	for _, key := range slices.Sorted(maps.Keys(source.Spec.NodeSelector)) {
		if _, ok := r.template.Spec.NodeSelector[key]; ok {
			continue
		}
		if r.template.Spec.NodeSelector == nil {
			r.template.Spec.NodeSelector = map[string]string{}
		}
		r.template.Spec.NodeSelector[key] = source.Spec.NodeSelector[key]
		kept = append(kept, key)
	}
	if len(kept) > 0 {
		r.notes.add(NodesKept, "spec.nodeSelector keeps %s of %s: a copy runs on nodes on which its workload may run", strings.Join(kept, ", "), r.Snapshot.Source)
	}
}

// checkNodes refuses another value for what the workload says of its nodes, and labels that stand for single nodes.
func (r *rendering) checkNodes(source *corev1.PodTemplateSpec) error {
	for _, key := range slices.Sorted(maps.Keys(r.template.Spec.NodeSelector)) {
		value := r.template.Spec.NodeSelector[key]
		theirs, has := source.Spec.NodeSelector[key]
		at := fmt.Sprintf("spec.nodeSelector[%q]", key)
		switch {
		case has && theirs != value:
			return refuse(NotAllowed, "%s: is the workload's own, %q; choose nodes by another label in addition", at, theirs)
		case !has && kubernetesDomain(key) && !slices.Contains(nodeLabels, key):
			return refuse(NotAllowed, "%s: is not a tenant's to choose by; use %s, or a label of the operator's own", at, strings.Join(nodeLabels, ", "))
		}
	}
	return nil
}

// kubernetesDomain reports whether a key is in a domain of Kubernetes.
func kubernetesDomain(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "x-k8s.io"}, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// search lets the pod find the Services of the Baseline by their short names. What the pod searches already comes first.
func (r *rendering) search() {
	config := &corev1.PodDNSConfig{}
	if r.template.Spec.DNSConfig != nil {
		config = r.template.Spec.DNSConfig
	}
	letters := 0
	for _, domain := range config.Searches {
		letters += len(domain) + 1
	}
	var dropped []string
	for _, namespace := range r.Searches {
		domain := namespace + searchSuffix
		switch {
		case slices.Contains(config.Searches, domain):
		case len(config.Searches) >= maxSearches || letters+len(domain) > maxSearchesLetters:
			dropped = append(dropped, namespace)
		default:
			config.Searches = append(config.Searches, domain)
			letters += len(domain) + 1
		}
	}
	if len(dropped) > 0 {
		r.notes.add(SearchesDropped, "Services of %s are not found by their short names: a pod searches at most %d domains of %d characters together; use SERVICE.NAMESPACE", strings.Join(dropped, ", "), maxSearches, maxSearchesLetters)
	}
	if len(config.Searches) > 0 {
		r.template.Spec.DNSConfig = config
	}
}
