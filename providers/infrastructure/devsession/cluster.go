// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster reads the runtime cluster; install/rbac/controllers gives the rights to it.
type cluster struct{ cached, live client.Reader }

// pods are those of a placement, of which the cache has what a status is made of.
func (c cluster) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.cached.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	return list.Items, nil
}

// endpoints are the pods that a Service leads to, also those that are not ready, and how many are. They are read while a switch
// waits for them, and not watched: there are many on a cluster, and a switch takes seconds.
func (c cluster) endpoints(ctx context.Context, namespace, service string) (pods []string, ready int, err error) {
	var list discoveryv1.EndpointSliceList
	if err := c.live.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return nil, 0, fmt.Errorf("listing the endpoints of Service %s: %w", service, err)
	}
	for i := range list.Items {
		for j := range list.Items[i].Endpoints {
			e := &list.Items[i].Endpoints[j]
			if e.TargetRef == nil {
				continue
			}
			pods = append(pods, e.TargetRef.Name)
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
	}
	return pods, ready, nil
}

// quotas are those of a placement.
func (c cluster) quotas(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	var list corev1.ResourceQuotaList
	if err := c.live.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the quotas: %w", err)
	}
	return list.Items, nil
}
