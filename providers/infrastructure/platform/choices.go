// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// choicesPage bounds one answer of the runtime cluster.
const choicesPage = 500

// checkChoices refuses a change that takes an image away which instances have chosen
// (Template.spec.imageChoice). A chosen image that no instance has may go.
func (r *reconciler) checkChoices(ctx context.Context, images, before map[string]string) error {
	var templates sandbarv1alpha1.TemplateList
	if err := r.kcp.List(ctx, &templates); err != nil {
		return fmt.Errorf("listing the Templates: %w", err)
	}
	for i := range templates.Items {
		t := &templates.Items[i]
		if t.Spec.ImageChoice == nil || t.Status.Kind == "" {
			continue
		}
		gone := map[string]int{}
		for _, key := range t.Spec.ImageChoice.Images {
			if images[key] == "" && before[key] != "" {
				gone[key] = 0
			}
		}
		if len(gone) == 0 {
			continue
		}
		if err := r.countChoices(ctx, t, gone); err != nil {
			return err
		}
		for _, key := range t.Spec.ImageChoice.Images {
			if gone[key] > 0 {
				return &refusal{reasonImageMissing, fmt.Sprintf("spec.images has no %q any more, and %d instances of Template %s have spec.%s %q; "+
					"put it back, or have their owners choose another first", key, gone[key], t.Name, t.Spec.ImageChoice.Field, key)}
			}
		}
	}
	return nil
}

// countChoices counts the instances of a Template that have chosen one of the images. It asks the
// runtime cluster's API server: a cache may not know the last one yet.
func (r *reconciler) countChoices(ctx context.Context, t *sandbarv1alpha1.Template, chosen map[string]int) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: r.names.Group(), Version: t.Status.Version, Kind: t.Status.Kind + "List"})
	for next := ""; ; {
		err := r.live.List(ctx, list, client.HasLabels{placement.LabelInstanceUID}, client.Limit(choicesPage), client.Continue(next))
		if err != nil {
			return fmt.Errorf("listing the instances of Template %s: %w", t.Name, err)
		}
		for i := range list.Items {
			key, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", t.Spec.ImageChoice.Field)
			if _, counted := chosen[key]; counted {
				chosen[key]++
			}
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
