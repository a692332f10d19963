// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// candidates are the kind's instances in a workspace that are not being deleted.
func (r *runner) candidates(cluster string) []candidate {
	var all []candidate
	r.Objects.InWorkspace(cluster, func(obj metav1.Object) {
		req, ok := export.KeyOf(obj)
		if !ok || obj.GetDeletionTimestamp() != nil {
			return
		}
		all = append(all, candidate{
			owner: placement.Owner{Cluster: cluster, UID: obj.GetUID()}, req: req, created: obj.GetCreationTimestamp().Time,
			wake: func() { r.Wake(req, false) },
		})
	})
	return all
}
