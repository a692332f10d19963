// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// indexWorkspace finds the namespaces of placements that count as a workspace's, those that its SandboxSets keep ready
// among them.
const indexWorkspace = "workspace"

// Places counts a provider's placements of a workspace, and which of these a Sandbox of a namespace may take. The controllers,
// which bound the former, may know of some more.
func (c *RuntimeCache) Places(provider, cluster, namespace string) (placed, ready int) {
	objs, _ := c.Namespaces.GetIndexer().ByIndex(indexWorkspace, provider+"/"+cluster) // fails only without the index
	for _, obj := range objs {
		if ns, ok := obj.(*corev1.Namespace); ok {
			m, isMember := placement.MemberOf(ns)
			if isMember && m.State == placement.MemberWarm && m.Set.Namespace == namespace {
				ready++
			}
		}
	}
	return len(objs), ready
}

func workspaceOf(obj any) ([]string, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, nil
	}
	if m, ok := placement.MemberOf(ns); ok {
		return []string{placement.ProviderOf(ns) + "/" + m.Origin}, nil
	}
	if p, ok := placement.Of(ns); ok {
		return []string{placement.ProviderOf(ns) + "/" + p.Owner.Cluster}, nil
	}
	return nil, nil
}
