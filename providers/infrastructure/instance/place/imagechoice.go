// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// ReasonImageMissing is a reason of Composed: the tenant has chosen an image that the operator does not
// have.
const ReasonImageMissing = "ImageMissing"

// ChooseImage refuses an instance that chooses an image which the operator does not have. Without it
// kro would make a workload without an image, and the tenant would read the API server's words about
// an object that they cannot see. An instance that exists, as current, keeps its former
// choice; complete is false for one that has none.
//
// The chosen value is a key in the operator's list and nothing else: a tenant who could name an image
// here would run it in the place of the toolchain.
func ChooseImage(s *scope.Scope, current, desired *unstructured.Unstructured) (complete bool, err error) {
	if s.Choice() == nil {
		return true, nil
	}
	field := s.Choice().Field
	chosen, _, _ := unstructured.NestedString(desired.Object, "spec", field)
	there := choosable(s)
	if slices.Contains(there, chosen) {
		return true, nil
	}
	has := "it has none that can be chosen; the operator has to add one to spec.images of the InfrastructureProvider"
	if len(there) > 0 {
		has = "it has " + strings.Join(there, ", ") + ". Choose one of these, or ask the operator to add it"
	}
	err = &outcome.RefusalError{Reason: ReasonImageMissing, Message: fmt.Sprintf("spec.%s: the provider has no image for %q; %s", field, chosen, has)}
	if current == nil {
		return false, err
	}
	former, found, _ := unstructured.NestedString(current.Object, "spec", field)
	if !found || !slices.Contains(there, former) {
		return false, err
	}
	spec, _ := desired.Object["spec"].(map[string]any)
	spec[field] = former
	return true, err
}

// choosable are the images that can be chosen and that the operator has, in the Template's order.
func choosable(s *scope.Scope) []string {
	var there []string
	for _, key := range s.Choice().Images {
		if s.Infrastructure().Images[key] != "" {
			there = append(there, key)
		}
	}
	return there
}
