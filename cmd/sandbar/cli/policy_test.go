// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A policy that refused a creator's name was told as a missing right, for which to ask the owner of the workspace.
func TestWhatAPolicyRefusesIsNotAMissingRight(t *testing.T) {
	sandboxes := schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a policy": {
			fmt.Errorf("creating it: %w", apierrors.NewForbidden(sandboxes, "web", errors.New(
				"ValidatingAdmissionPolicy 'sandbar-created-by' with binding 'sandbar-created-by' denied request: write alice,\x1b[2J or leave it out"))),
			`write alice,\x1b[2J or leave it out`,
		},
		"a right":          {apierrors.NewForbidden(sandboxes, "web", errors.New("access denied")), ""},
		"another refusal":  {apierrors.NewConflict(sandboxes, "web", errors.New("ValidatingAdmissionPolicy 'x' denied request: y")), ""},
		"no refusal":       {errors.New("ValidatingAdmissionPolicy 'x' denied request: y"), ""},
		"without a reason": {apierrors.NewForbidden(sandboxes, "web", errors.New("ValidatingAdmissionPolicy 'x' with binding 'x'")), ""},
	} {
		if got := refusedByPolicy(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
