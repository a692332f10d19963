// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// The watch shows no change of a status: a claim would hear of a Sandbox that is Ready when its deadline passes.
func TestAClaimIsToldWhenTheStatusOfItsSandboxChanges(t *testing.T) {
	w := newWarmWorld(t, 1)
	w.mustReconcile()
	if len(w.claims) > 0 {
		t.Errorf("of a Sandbox without a claim %v were told", w.claims)
	}
	w = newWarmWorld(t, 1)
	w.inKCP.SetLabels(map[string]string{placement.LabelClaim: "batch"})
	w.mustReconcile()
	batch := export.Key{Cluster: fixture.Cluster, NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "batch"}}
	if !slices.Equal(w.claims, []export.Key{batch}) {
		t.Errorf("%v were told", w.claims)
	}
	w.settle()
	w.claims = nil
	w.mustReconcile()
	if len(w.claims) > 0 {
		t.Errorf("at rest %v were told", w.claims)
	}
}

func TestSandboxesAreNotThereBeforeTheirTemplateIs(t *testing.T) {
	w := newWarmWorld(t, 0)
	kinds := NewKinds("Thing", func(export.Key) {}, func(export.Key) {})
	if _, offered := kinds.MemberKind(); offered {
		t.Error("there is a kind for members")
	}
	s := kinds.Sandboxes()
	_, _, made := s.New()
	_, listed := s.List(t.Context(), "c", "n", "")
	_, read := s.Live(t.Context(), testRequest)
	_, patched := s.Patch(t.Context(), testRequest, nil)
	for what, err := range map[string]error{
		"New": made, "List": listed, "Live": read, "Patch": patched,
		"Create": s.Create(t.Context(), testRequest, w.inKCP), "Remove": s.Remove(t.Context(), testRequest, w.inKCP),
	} {
		if !errors.Is(err, ErrNoKind) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
