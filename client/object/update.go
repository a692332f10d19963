// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
)

// Updated is the outcome of an Update that has changed the object.
const Updated Outcome = "updated"

// Update replaces an object by obj, but for its status, and returns it as the server answered with the [Outcome]
// Updated or Unchanged: fields that obj does not have are taken away. The object must have the version of the options, or
// else the metadata.resourceVersion of obj, and its metadata.uid if there is one: of another one it is refused with a
// [ConflictError]. With force, it replaces the object in any version, and returns an error of the server's only.
func (c *Client) Update(ctx context.Context, k Kind, namespace string, obj *unstructured.Unstructured, force bool, opts WriteOptions) (*unstructured.Unstructured, Outcome, error) {
	obj = obj.DeepCopy()
	obj.SetGroupVersionKind(k.GVK())
	obj.SetManagedFields(nil)
	if opts.Version != "" {
		obj.SetResourceVersion(opts.Version)
	}
	write := func() (*unstructured.Unstructured, error) {
		return c.of(k, namespace).Update(ctx, obj, metav1.UpdateOptions{DryRun: opts.dryRun(), FieldManager: FieldManager, FieldValidation: opts.validation()})
	}
	var written *unstructured.Unstructured
	var err error
	if !force {
		written, err = write()
	} else {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := c.of(k, namespace).Get(ctx, obj.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			obj.SetResourceVersion(current.GetResourceVersion())
			obj.SetUID(current.GetUID())
			written, err = write()
			return err
		})
	}
	switch {
	case apierrors.IsConflict(err):
		return nil, "", c.conflict(ctx, k, inNamespace(obj, namespace), obj.GetResourceVersion(), replacing(obj), err)
	case err != nil:
		return nil, "", fmt.Errorf("updating %s %s: %w", k.Resource.Resource, obj.GetName(), tidy(err))
	case written.GetResourceVersion() == obj.GetResourceVersion() && !opts.DryRun:
		return written, Unchanged, nil
	}
	return written, Updated, nil
}

// inNamespace is what is known of an object that was not read: which one it is.
func inNamespace(obj *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	known := &unstructured.Unstructured{Object: map[string]any{}}
	known.SetName(obj.GetName())
	known.SetNamespace(namespace)
	known.SetUID(obj.GetUID())
	return known
}

// replacing is obj with the status of the object that it replaces, which an update does not write.
func replacing(obj *unstructured.Unstructured) wanted {
	return func(before *unstructured.Unstructured) *unstructured.Unstructured {
		after := obj.DeepCopy()
		if status, ok := before.Object["status"]; ok {
			after.Object["status"] = status
		} else {
			delete(after.Object, "status")
		}
		return after
	}
}
