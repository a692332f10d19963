// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// Sandboxes are the objects of the kind Sandbox in all workspaces, for a controller that makes some on behalf of a
// tenant. Each method returns ErrNoKind while the provider offers no Sandboxes.
type Sandboxes struct {
	// runner is that of the kind; nil while the provider offers none.
	runner func() *runner
	// changed is told of the SandboxClaim of a Sandbox that comes, changes or goes.
	changed func(claim export.Key)
}

// seen tells of the SandboxClaim of a Sandbox, if it has one.
func (s *Sandboxes) seen(cluster string, obj metav1.Object) {
	if name := obj.GetLabels()[placement.LabelClaim]; name != "" {
		s.changed(export.Key{Cluster: cluster, NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}})
	}
}

// ErrNoKind means that no Template of the provider has the kind Sandbox, or none that is followed yet.
var ErrNoKind = members.ErrNoKind

func (s *Sandboxes) objects() (*runner, error) {
	r := s.runner()
	if r == nil || r.Controller == nil {
		return nil, ErrNoKind
	}
	return r, nil
}

// New returns an empty Sandbox, and the name of the field of its spec that holds the template.
func (s *Sandboxes) New() (obj *unstructured.Unstructured, templateField string, err error) {
	r, err := s.objects()
	if err != nil {
		return nil, "", err
	}
	return r.kind.NewObject(), r.settings.Load().Pod.Fields.From, nil
}

// List lists the Sandboxes of a namespace of a workspace that a label selector finds.
func (s *Sandboxes) List(ctx context.Context, cluster, namespace, selector string) ([]unstructured.Unstructured, error) {
	r, err := s.objects()
	if err != nil {
		return nil, err
	}
	return r.Objects.List(ctx, cluster, namespace, selector)
}

// Live reads a Sandbox in its own workspace.
func (s *Sandboxes) Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error) {
	r, err := s.objects()
	if err != nil {
		return nil, err
	}
	return r.Objects.Live(ctx, key)
}

// Create creates a Sandbox.
func (s *Sandboxes) Create(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error {
	r, err := s.objects()
	if err != nil {
		return err
	}
	return r.Objects.Create(ctx, key, obj)
}

// Remove deletes a Sandbox if it still is as it was read.
func (s *Sandboxes) Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error {
	r, err := s.objects()
	if err != nil {
		return err
	}
	return r.Objects.Remove(ctx, key, read)
}

// Patch writes a JSON merge patch.
func (s *Sandboxes) Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	r, err := s.objects()
	if err != nil {
		return nil, err
	}
	return r.Objects.Patch(ctx, key, data, subresources...)
}
