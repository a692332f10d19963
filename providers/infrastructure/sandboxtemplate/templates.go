// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
)

// Templates are the SandboxTemplates of all tenants.
type Templates struct {
	objects objects
	// read are those that were read, for as long as the watch shows the same.
	read *remembered
	// references are those of SandboxTemplates to each other.
	references export.References
	// wake has a SandboxTemplate looked at.
	wake func(export.Key)
	// readers refer to SandboxTemplates, and standIns has what stands for those that there are not; nil for nothing.
	readers  []Reader
	standIns StandIns
}

// Reader is somebody whose objects refer to SandboxTemplates.
type Reader interface {
	// TemplateChanged is told of each name of a SandboxTemplate which has come, has gone, or was made again, and of each that
	// rests on such a one.
	TemplateChanged(key export.Key)
}

// StandIns are what stands for SandboxTemplates that there are not.
type StandIns interface {
	// StandIn returns what stands for the SandboxTemplate of a key; nil if nothing does.
	StandIn(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error)
}

func newTemplates(readers []Reader, standIns StandIns) *Templates {
	return &Templates{read: newRemembered(), wake: func(export.Key) {}, readers: readers, standIns: standIns}
}

// Changed has all looked at that refer to a name under which another SandboxTemplate, or what stands for one, is
// found now, or none any more.
func (t *Templates) Changed(key export.Key) {
	resting := t.references.To(key) // what rests on these does not rest on key: podbase refuses it
	for _, other := range resting {
		t.wake(other)
	}
	names := append(resting, key)
	for _, reader := range t.readers {
		for _, name := range names {
			reader.TemplateChanged(name)
		}
	}
}

// objects reads and writes SandboxTemplates; *export.Objects does it against kcp.
type objects interface {
	Shown(key export.Key) (metav1.Object, bool)
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
}

// Named returns a SandboxTemplate, or what stands for it; nil if there is neither. One that was read before is not read
// again while the watch shows the same.
func (t *Templates) Named(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	if shown, ok := t.objects.Shown(key); ok {
		if template := t.read.find(key, shown); template != nil {
			return template, nil
		}
	}
	template, err := t.Own(ctx, key)
	if err != nil || template != nil || t.standIns == nil {
		return template, err
	}
	return t.standIns.StandIn(ctx, key)
}

// Own reads a SandboxTemplate in its own workspace; nil if there is none, also when a set stands for it.
func (t *Templates) Own(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	begun := t.read.now()
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
	t.read.add(key, template, begun)
	return template, nil
}
