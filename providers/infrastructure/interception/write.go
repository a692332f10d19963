// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// take does one step: it writes one object, once.
func (r *reconciler) take(ctx context.Context, name types.NamespacedName, v *intercept.View, step intercept.Step) error {
	state, document := intercept.StateKey(name.Name), wire.Key(name.Name)
	switch step.Do {
	case intercept.WriteState:
		return r.patch(ctx, name.Namespace, intercept.RoutesConfigMap, map[string]any{state: step.Text})
	case intercept.DropState:
		return r.patch(ctx, name.Namespace, intercept.RoutesConfigMap, map[string]any{state: nil})
	case intercept.WriteDocument:
		return r.patch(ctx, name.Namespace, wire.ConfigMap, map[string]any{document: step.Text})
	case intercept.DropDocument:
		return r.patch(ctx, name.Namespace, wire.ConfigMap, map[string]any{document: nil})
	case intercept.DropIntents:
		return r.dropIntents(ctx, name, v, step.UIDs)
	default:
		return r.takeObject(ctx, v, step)
	}
}

// takeObject does one step that is about an object.
func (r *reconciler) takeObject(ctx context.Context, v *intercept.View, step intercept.Step) error {
	if service, ok := step.Object.(*corev1.Service); ok && (step.Do == intercept.Switch || step.Do == intercept.Restore) {
		patch := client.RawPatch(types.MergePatchType, intercept.Patch(v.Service, service))
		return changing(service, func() error { return r.writer.Patch(ctx, service, patch, client.FieldOwner(intercept.FieldOwner)) })
	}
	object, ok := step.Object.(client.Object)
	if !ok {
		return fmt.Errorf("the step is about %T, which is not an object", step.Object)
	}
	switch step.Do {
	case intercept.Create:
		return wrapped(r.writer.Create(ctx, object, client.FieldOwner(intercept.FieldOwner)))
	case intercept.Update:
		return changing(object, func() error { return r.writer.Update(ctx, object, client.FieldOwner(intercept.FieldOwner)) })
	case intercept.Delete:
		return wrapped(runtimecluster.Delete(ctx, r.writer, object))
	default:
		return fmt.Errorf("%q is not a step", step.Do)
	}
}

// dropIntents removes the intents of routes that ask for nothing any more. One that asks again in the meantime finds its intent
// gone, by the watch, and writes it.
func (r *reconciler) dropIntents(ctx context.Context, name types.NamespacedName, v *intercept.View, uids []types.UID) error {
	gone := map[string]any{}
	for _, uid := range uids {
		gone[intercept.IntentKey(name.Name, uid)] = nil
	}
	if v.Forgetful {
		return nil
	}
	return r.patch(ctx, name.Namespace, intercept.RoutesConfigMap, gone)
}

func (r *reconciler) patch(ctx context.Context, namespace, name string, data map[string]any) error {
	return patchData(ctx, r.writer, namespace, name, data)
}

// patchData changes some keys of a ConfigMap, and no others: several write to it.
func patchData(ctx context.Context, c client.Writer, namespace, name string, data map[string]any) error {
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding a change of ConfigMap %s: %w", name, err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(intercept.FieldOwner)); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// changing does a write of an object, which has its version before and after. The error is errUndone if it has changed nothing.
func changing(object metav1.Object, write func() error) error {
	before := object.GetResourceVersion()
	if err := write(); err != nil {
		return wrapped(err)
	}
	if object.GetResourceVersion() == before {
		return errUndone
	}
	return nil
}

func wrapped(err error) error {
	if err != nil {
		return fmt.Errorf("writing it: %w", err)
	}
	return nil
}
