// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
)

// Copier copies ConfigMaps and Secrets that a copy of a workload refers to into its placement, once each. It never reads
// what is there under the name: the provider has no right to.
type Copier struct {
	Reader

	Client client.Client
	// FieldOwner owns what is written.
	FieldOwner string
}

// Copy makes the copy of an object that source's namespace has: under the same name, with the metadata, which names the
// placement, and immutable. Nothing of the original's metadata is copied. One that is there already is left as it is.
//
// The error is a *clone.RefusedError if the original is not there, or is none that can be shared.
func (c Copier) Copy(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, ref clone.Reference, meta metav1.ObjectMeta) error {
	copied, err := c.copyOf(ctx, b, source, ref)
	if err != nil {
		return err
	}
	copied.SetName(ref.Name)
	copied.SetNamespace(meta.Namespace)
	copied.SetLabels(maps.Clone(meta.Labels))
	copied.SetAnnotations(maps.Clone(meta.Annotations))
	if err := c.Client.Create(ctx, copied, client.FieldOwner(c.FieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("copying %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// copyOf reads the original and keeps its data.
func (c Copier) copyOf(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, ref clone.Reference) (client.Object, error) {
	if ref.Kind == clone.KindConfigMap {
		original := &corev1.ConfigMap{}
		if err := c.original(ctx, b, source, ref, original); err != nil {
			return nil, err
		}
		return &corev1.ConfigMap{Data: original.Data, BinaryData: original.BinaryData, Immutable: new(true)}, nil
	}
	original := &corev1.Secret{}
	if err := c.original(ctx, b, source, ref, original); err != nil {
		return nil, err
	}
	if !sharable(original.Type) {
		return nil, refuse(clone.SecretNotShared, "%s: Secret %s is of the type %s, which is not copied; remove the reference by podTemplatePatch", ref.Path, ref.Name, original.Type)
	}
	return &corev1.Secret{Data: original.Data, Type: original.Type, Immutable: new(true)}, nil
}

// sharable keeps credentials of the runtime cluster itself out of placements, also if an operator shares all Secrets of a
// namespace. The attack: a tenant reads the token of the workload's ServiceAccount, or one by which a node joins, from its copy.
func sharable(t corev1.SecretType) bool {
	return t != corev1.SecretTypeServiceAccountToken && t != corev1.SecretTypeBootstrapToken
}

func (c Copier) original(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, ref clone.Reference, into client.Object) error {
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: ref.Name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return refuse(clone.RenderFailed, "%s: %s refers to %s %s, which is not there; ask the operator to create it, or remove the reference by podTemplatePatch", ref.Path, source, ref.Kind, ref.Name)
	case apierrors.IsForbidden(err):
		return refuse(SourceNotReadable, "%s: the provider may not read %s %s of Baseline %s yet; ask the operator, who runs sandbar-provider baseline grant %s", ref.Path, ref.Kind, ref.Name, b.Name, b.Name)
	case err != nil:
		return fmt.Errorf("reading %s %s/%s: %w", ref.Kind, source.Namespace, ref.Name, err)
	}
	return nil
}
