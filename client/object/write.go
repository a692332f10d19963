// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// FieldManager is the name under which the writes of this package are recorded in an object's managedFields.
const FieldManager = "sandbar-cli"

// WriteOptions say how a write is done.
type WriteOptions struct {
	// DryRun has the server check the write, and not do it.
	DryRun bool
	// Version is the resourceVersion that the object must have; empty means any. Of an object that has another
	// the write is refused with a [ConflictError].
	Version string
	// DropUnknown has fields that the kind does not have dropped, and not refused.
	DropUnknown bool
}

func (o WriteOptions) dryRun() []string {
	if o.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (o WriteOptions) validation() string {
	if o.DropUnknown {
		return metav1.FieldValidationIgnore
	}
	return metav1.FieldValidationStrict
}

// Create creates an object and returns it as the server answered. Its kind and namespace may be empty. An object of a kind
// of Sandbar's says who has created it; see [client.Signer].
func (c *Client) Create(ctx context.Context, k Kind, namespace string, obj *unstructured.Unstructured, opts WriteOptions) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	obj.SetGroupVersionKind(k.GVK())
	if k.Resource.Group == sandbarv1alpha1.GroupName {
		c.signer.Sign(ctx, obj)
	}
	created, err := c.of(k, namespace).Create(ctx, obj, metav1.CreateOptions{
		DryRun: opts.dryRun(), FieldManager: FieldManager, FieldValidation: opts.validation(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", k.Resource.Resource, obj.GetName(), tidy(err))
	}
	return created, nil
}

// Delete deletes the object that was read, and not another one that was created under its name since, and only if
// it has the version of the options. A [ConflictError] says that it has another.
func (c *Client) Delete(ctx context.Context, k Kind, obj *unstructured.Unstructured, opts WriteOptions) error {
	uid := obj.GetUID()
	conditions := &metav1.Preconditions{UID: &uid}
	if opts.Version != "" {
		conditions.ResourceVersion = &opts.Version
	}
	err := c.of(k, obj.GetNamespace()).Delete(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: conditions, DryRun: opts.dryRun()})
	if apierrors.IsConflict(err) {
		return c.conflict(ctx, k, obj, opts.Version, nil, err)
	}
	if err != nil {
		return fmt.Errorf("deleting %s %s: %w", k.Resource.Resource, obj.GetName(), err)
	}
	return nil
}

// Patch changes fields of an object that was read, by a JSON merge patch (RFC 7386), and returns the object as the server
// answered. It refuses an object that was created again, and with a version of the options one that has another, with a
// [ConflictError]. Fields that the kind does not have are refused.
func (c *Client) Patch(ctx context.Context, k Kind, known *unstructured.Unstructured, change map[string]any, opts WriteOptions) (*unstructured.Unstructured, error) {
	change = runtime.DeepCopyJSON(change)
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = string(known.GetUID())
	if opts.Version != "" {
		metadata["resourceVersion"] = opts.Version
	} else {
		delete(metadata, "resourceVersion")
	}
	change["metadata"] = metadata
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("writing the change of %s: %w", known.GetName(), err)
	}
	changed, err := c.of(k, known.GetNamespace()).Patch(ctx, known.GetName(), types.MergePatchType, patch, metav1.PatchOptions{
		DryRun: opts.dryRun(), FieldManager: FieldManager, FieldValidation: opts.validation(),
	})
	if apierrors.IsConflict(err) {
		return nil, c.conflict(ctx, k, known, opts.Version, func(obj *unstructured.Unstructured) *unstructured.Unstructured { return merged(obj, change) }, err)
	}
	if err != nil {
		return nil, fmt.Errorf("changing %s %s: %w", k.Resource.Resource, known.GetName(), tidy(err))
	}
	return changed, nil
}

// OverwriteError means that an object has a label or an annotation with another value.
type OverwriteError struct{ Noun, Object, Key, Has, Wanted string }

// Error implements error.
func (e *OverwriteError) Error() string {
	return fmt.Sprintf("the %s %s of %s is %q, and would become %q", e.Noun, e.Key, e.Object, e.Has, e.Wanted)
}

// Mark sets and takes away labels or annotations of an object, and returns it with whether that has changed it.
// Without overwrite, an [OverwriteError] refuses to change a value that there is. Other writers' changes are kept.
func (c *Client) Mark(ctx context.Context, k Kind, namespace, name string, of PairKind, pairs Pairs, overwrite bool, opts WriteOptions) (obj *unstructured.Unstructured, changed bool, err error) {
	write := func() error {
		if obj, err = c.of(k, namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading %s %s: %w", k.Resource.Resource, name, err)
		}
		patch, err := of.patch(obj, pairs, overwrite)
		if err != nil {
			return err
		}
		if opts.Version != "" && opts.Version != obj.GetResourceVersion() {
			return c.conflict(ctx, k, obj, opts.Version, of.want(pairs), nil)
		}
		if changed = patch != nil; !changed {
			return nil
		}
		written, err := c.of(k, namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: opts.dryRun(), FieldManager: FieldManager})
		if err != nil {
			return fmt.Errorf("changing %s %s: %w", k.Resource.Resource, name, err)
		}
		obj = written
		return nil
	}
	if opts.Version != "" {
		if err = write(); apierrors.IsConflict(err) {
			err = c.conflict(ctx, k, obj, opts.Version, of.want(pairs), err)
		}
		return obj, changed, err
	}
	// Under the version that was read, so that a value which somebody sets in between is not overwritten.
	err = retry.RetryOnConflict(retry.DefaultRetry, write)
	return obj, changed, err
}

// want is an object with the pairs.
func (k PairKind) want(pairs Pairs) wanted {
	change := map[string]any{}
	for key, value := range pairs.Set {
		change[key] = value
	}
	for _, key := range pairs.Remove {
		change[key] = nil
	}
	return func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		return merged(obj, map[string]any{"metadata": map[string]any{k.Field(): change}})
	}
}

// patch is the merge patch that changes the pairs of an object, under the version that it has; nil if it has them.
func (k PairKind) patch(obj *unstructured.Unstructured, pairs Pairs, overwrite bool) ([]byte, error) {
	has, _, err := unstructured.NestedStringMap(obj.Object, "metadata", k.Field())
	if err != nil {
		return nil, fmt.Errorf("reading the %s of %s: %w", k.Field(), obj.GetName(), err)
	}
	change := map[string]any{}
	for key, value := range pairs.Set {
		before, there := has[key]
		switch {
		case there && before == value:
			continue
		case there && !overwrite:
			return nil, &OverwriteError{k.Noun, obj.GetName(), key, before, value}
		}
		change[key] = value
	}
	for _, key := range pairs.Remove {
		if _, there := has[key]; there {
			change[key] = nil
		}
	}
	if len(change) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), k.Field(): change,
	}})
	if err != nil {
		return nil, fmt.Errorf("writing the change of %s: %w", obj.GetName(), err)
	}
	return patch, nil
}
