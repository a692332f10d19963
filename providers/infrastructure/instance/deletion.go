// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// observeDeletion finds out whether a resource of the instance is being deleted although the instance is
// not. A volume that a pod uses is deleted only when the pod ends, and until then kro waits: its data can
// still be saved.
func (r *reconciler) observeDeletion(ctx context.Context, s *scope.Scope, instance *unstructured.Unstructured) (*outcome.Cause, time.Duration, error) {
	if instance == nil {
		return nil, 0, nil
	}
	names := outcome.BeingDeleted(instance)
	if len(names) == 0 {
		return nil, 0, nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.runtime.live.List(ctx, &claims, client.InNamespace(s.Placement().Namespace()), client.Limit(maxEvents)); err != nil {
		return nil, 0, fmt.Errorf("listing the volumes: %w", err)
	}
	var volumes []string
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp != nil {
			volumes = append(volumes, claim.Name)
		}
	}
	return outcome.DeletedCause(names, volumes), lookMost, nil // a volume's deletion is no event for the provider
}
