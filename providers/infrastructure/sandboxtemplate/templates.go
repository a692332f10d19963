// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
)

// Templates are the SandboxTemplates of all tenants.
type Templates struct {
	objects objects
	// appeared is told of one that has not been looked at before: somebody may wait for it.
	appeared func(export.Key)
	// other finds what stands for a SandboxTemplate that there is not.
	other Other
}

// Other finds what stands for a SandboxTemplate that there is not; nil if nothing does.
type Other func(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error)

func newTemplates() *Templates {
	return &Templates{
		appeared: func(export.Key) {},
		other:    func(context.Context, export.Key) (*sandbarv1alpha1.SandboxTemplate, error) { return nil, nil }, //nolint:nilnil // there is none
	}
}

// OrElse sets what stands for SandboxTemplates that there are not. Set it before the manager starts.
func (t *Templates) OrElse(other Other) { t.other = other }

// OnAppeared sets who is told of each SandboxTemplate that is new. Set it before the manager starts.
func (t *Templates) OnAppeared(told func(export.Key)) { t.appeared = told }

// objects reads and writes SandboxTemplates; *export.Objects does it against kcp.
type objects interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
}

// Named reads a SandboxTemplate in its own workspace, or what stands for it; nil if there is neither.
func (t *Templates) Named(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	template, err := t.own(ctx, key)
	if err != nil || template != nil {
		return template, err
	}
	return t.other(ctx, key)
}

// own reads a SandboxTemplate; nil if there is none.
func (t *Templates) own(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	obj, err := t.objects.Live(ctx, key)
	switch {
	case export.IsGone(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("reading SandboxTemplate %s: %w", key.Name, err)
	}
	template := &sandbarv1alpha1.SandboxTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, template); err != nil {
		return nil, fmt.Errorf("reading SandboxTemplate %s: %w", key.Name, err)
	}
	return template, nil
}
