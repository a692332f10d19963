// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runtimecluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Delete deletes the object that was read and no later one of the same name. An object that is gone, or another one by now,
// is not an error.
func Delete(ctx context.Context, c client.Writer, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
