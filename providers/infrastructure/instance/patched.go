// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/resize"
)

// maxPatched bounds the patched pod templates that are kept; beyond it the least used are computed again.
const maxPatched = 1024

// patchedBases are pod templates with the patch of a set on them. Each is computed once for each pair of a template
// and a patch, and not for each member, and never while instances take members.
type patchedBases struct {
	known *lru.Cache[string, patchedBase]
}

type patchedBase struct {
	base *podtemplate.Base
	err  error
}

func newPatchedBases() *patchedBases {
	known, _ := lru.New[string, patchedBase](maxPatched) // fails only for a size below one
	return &patchedBases{known: known}
}

// of returns the base with what a set changes in it. The error is a *podtemplate.RefusedError if the patch does not
// apply.
func (p *patchedBases) of(base *podtemplate.Base, change scope.PodChange) (*podtemplate.Base, error) {
	patched, err := p.patch(base, change)
	if err != nil || !change.Resized {
		return patched, err
	}
	resized := *patched
	resized.Template = *patched.Template.DeepCopy()
	resize.Written(&base.Template.Spec).Put(&resized.Template.Spec)
	return &resized, nil
}

func (p *patchedBases) patch(base *podtemplate.Base, change scope.PodChange) (*podtemplate.Base, error) {
	if change.PlacementClass != "" {
		placed := *base
		placed.PlacementClass = change.PlacementClass
		base = &placed
	}
	patch := change.Patch
	if patch == "" {
		return base, nil
	}
	raw, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	key := hashOf([]string{string(raw), patch})
	if known, ok := p.known.Get(key); ok {
		return known.base, known.err
	}
	patchComputationsTotal.Inc()
	patched, err := base.Patched(&runtime.RawExtension{Raw: []byte(patch)})
	p.known.Add(key, patchedBase{patched, err})
	return patched, err
}

// patchedPod is the pod of a set with its patch, whose template has been found to make a pod without it: what is
// refused now is the patch.
func (r *reconciler) patchedPod(ctx context.Context, s *scope.Scope, change scope.PodChange) (revised, error) {
	words := *s.Pod()
	words.Written, words.WrittenClass = "spec.patch", "spec.placementClass"
	made, err := r.revisionPod(ctx, s.Saying(words), change)
	var refused *outcome.RefusalError
	if errors.As(err, &refused) && refused.Reason == outcome.ReasonSpecRefused {
		err = &outcome.RefusalError{Reason: sandbarv1alpha1.SandboxSetPatchRefused, Message: refused.Message}
	}
	return made, err
}

// patchOf says how the pod of a member differs from that of its set's template.
func patchOf(plain, patched *podtemplate.Pod) placement.MemberPatch {
	resources := func(pod *podtemplate.Pod) resize.Wish { return resize.Written(&pod.Template.Spec) }
	switch {
	case equality.Semantic.DeepEqual(plain.Template, patched.Template):
		return placement.Unpatched
	case equality.Semantic.DeepEqual(resources(plain), resources(patched)):
		return placement.PatchedResourcesEqual
	}
	return placement.PatchedResourcesDiffer
}
