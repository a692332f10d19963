// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// Between these is the time after which it is tried again to write an object in its new form.
const (
	convertAgainLeast = time.Second
	convertAgainMost  = 5 * time.Minute
)

// convertedObject is a tenant's object in the form of the present schema.
type convertedObject struct {
	object *unstructured.Unstructured
	// from is the generation that was converted; zero if nothing was written.
	from int64
	// again is when to try to write it again; zero if it needs no write.
	again time.Duration
}

// live reads a tenant's object, and gives it the form of the present schema.
func (r *reconciler) live(ctx context.Context, req request) (convertedObject, error) {
	obj, err := r.tenants.Live(ctx, req)
	if err != nil {
		return convertedObject{}, fmt.Errorf("reading the instance: %w", err)
	}
	return r.convert(ctx, req, obj)
}

// convert gives a tenant's object the form of the present schema, and writes that to the workspace. While the workspace
// has the former schema it refuses the new form: then the object is converted here alone, and it is tried again.
func (r *reconciler) convert(ctx context.Context, req request, obj *unstructured.Unstructured) (convertedObject, error) {
	settings := r.settings()
	spec, _ := obj.Object["spec"].(map[string]any)
	wanted, differs, failed := settings.Conversions.Of(spec)
	if failed != nil {
		log.FromContext(ctx).Info("a field of an instance keeps its former form", "cause", failed.Error())
	}
	if !differs {
		return convertedObject{object: obj}, nil
	}
	changed := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	changed.Object["spec"] = wanted
	if obj.GetDeletionTimestamp() != nil {
		return convertedObject{object: changed}, nil
	}
	data, err := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{}).Data(changed)
	if err != nil {
		return convertedObject{}, fmt.Errorf("encoding the new form of the spec: %w", err)
	}
	written, err := r.tenants.Patch(ctx, req, data)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		since := r.now().Sub(settings.Since) // each time is half as long again as the one before
		return convertedObject{object: changed, again: min(max(since/2, convertAgainLeast), convertAgainMost)}, nil
	case export.IsGone(err), apierrors.IsConflict(err):
		return convertedObject{}, fmt.Errorf("%w: writing the new form of the spec: %v", errChanged, err) //nolint:errorlint // that it is gone is believed of a read alone
	case err != nil:
		return convertedObject{}, fmt.Errorf("writing the new form of the spec: %w", err)
	}
	return convertedObject{object: written, from: obj.GetGeneration()}, nil
}

// beforeFirstApply is the manager that an API server makes up for the fields of an object whose managers are not known.
const beforeFirstApply = "before-first-apply"

// reshape gives a kro instance that has the former form the present one, so that it can be applied: an API server refuses
// to apply to an object whose fields are of other types than in its schema. The first write of such an object loses
// the managers of its fields. Without us among them, what we leave out later would stay for ever; so the second write
// says which fields are ours. Each step looks at what there is, also at what a process that ended in
// between has left.
func (c runtimeCluster) reshape(ctx context.Context, conversions *conversion.Set, current *unstructured.Unstructured) error {
	if conversions == nil || current == nil {
		return nil
	}
	spec, _ := current.Object["spec"].(map[string]any)
	wanted, differs, _ := conversions.Of(spec)
	shaped := current.DeepCopy()
	if differs {
		shaped.Object["spec"] = wanted
		shaped = shaped.DeepCopy() // nothing is shared with current
		patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
		if err := c.client.Patch(ctx, shaped, patch, client.FieldOwner(fieldOwner)); err != nil {
			// Not by its type: an API server that has the former schema still refuses it, and that is nothing that the
			// tenant has to correct.
			return fmt.Errorf("converting %s: %v", describe(current), err) //nolint:errorlint // see above
		}
	}
	return c.reown(ctx, shaped)
}

// reown has the kro instance say what of it was applied by us, if it does not say that of anything.
func (c runtimeCluster) reown(ctx context.Context, current *unstructured.Unstructured) error {
	var others []metav1.ManagedFieldsEntry
	for _, entry := range current.GetManagedFields() {
		switch {
		case entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "":
			return nil
		case entry.Manager != beforeFirstApply:
			others = append(others, entry)
		}
	}
	spec, _ := current.Object["spec"].(map[string]any)
	raw, err := json.Marshal(map[string]any{"f:spec": fieldSet(maps.Keys(spec)), "f:metadata": map[string]any{
		"f:labels":      fieldSet(filtered(current.GetLabels(), place.Ours)),
		"f:annotations": fieldSet(filtered(current.GetAnnotations(), place.Ours)),
	}})
	if err != nil {
		return fmt.Errorf("encoding the fields of %s: %w", describe(current), err)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": current.GetResourceVersion(),
		"managedFields": append(others, metav1.ManagedFieldsEntry{
			Manager: fieldOwner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: current.GetAPIVersion(),
			Time: new(metav1.Now()), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
		}),
	}})
	if err != nil {
		return fmt.Errorf("encoding the managers of %s: %w", describe(current), err)
	}
	if err := c.client.Patch(ctx, current, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("writing the managers of %s: %w", describe(current), err)
	}
	return nil
}

// fieldSet is a set of fields as managedFields have it.
func fieldSet(names iter.Seq[string]) map[string]any {
	set := map[string]any{}
	for name := range names {
		set["f:"+name] = map[string]any{}
	}
	return set
}

// filtered are the keys of which keep is true.
func filtered(entries map[string]string, keep func(string) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range entries {
			if keep(key) && !yield(key) {
				return
			}
		}
	}
}
