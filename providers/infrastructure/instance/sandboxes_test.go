// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// The watch shows no change of a status: a claim would hear of a Sandbox that is Ready when its deadline passes.
func TestAClaimIsToldWhenTheStatusOfItsSandboxChanges(t *testing.T) {
	w := newWarmWorld(t, 1)
	var told []string
	w.members.Sandboxes().OnChanged(func(claim export.Key) { told = append(told, claim.Cluster+"/"+claim.Namespace+"/"+claim.Name) })
	w.mustReconcile()
	if len(told) > 0 {
		t.Errorf("of a Sandbox without a claim %v were told", told)
	}
	w = newWarmWorld(t, 1)
	w.members.Sandboxes().OnChanged(func(claim export.Key) { told = append(told, claim.Cluster+"/"+claim.Namespace+"/"+claim.Name) })
	w.inKCP.SetLabels(map[string]string{placement.LabelClaim: "batch"})
	w.mustReconcile()
	if !slices.Equal(told, []string{fixture.Cluster + "/team-a/batch"}) {
		t.Errorf("%v were told", told)
	}
	told = nil
	w.settle()
	told = nil
	w.mustReconcile()
	if len(told) > 0 {
		t.Errorf("at rest %v were told", told)
	}
}

func TestSandboxesAreNotThereBeforeTheirTemplateIs(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.members.runner = func() *runner { return nil }
	s := w.members.Sandboxes()
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
