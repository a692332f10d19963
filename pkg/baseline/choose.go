// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// NotFoundError says that a workspace has no Baseline that is meant. One that is there and not for the workspace is not told
// from one that does not exist.
type NotFoundError struct {
	// Message says what to do.
	Message string
}

func (e *NotFoundError) Error() string { return e.Message }

// Choose returns the Baseline that an object of a workspace means: the one with the name, or without a name the only one that
// has a namespace with the object's as its alias. path is the workspace's, as for Admits. The error is a *NotFoundError.
//
// A Baseline that is being deleted is chosen by nobody.
func Choose(all []sandbarv1alpha1.Baseline, name, namespace, path string) (*sandbarv1alpha1.Baseline, error) {
	var admitted, meant []*sandbarv1alpha1.Baseline
	for i := range all {
		b := &all[i]
		if !b.DeletionTimestamp.IsZero() || !Admits(&b.Spec, path) {
			continue
		}
		admitted = append(admitted, b)
		if _, has := Namespace(&b.Spec, namespace); b.Name == name || name == "" && has {
			meant = append(meant, b)
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case name != "":
		return nil, &NotFoundError{fmt.Sprintf("spec.baselineRef.name: there is no Baseline %s for this workspace; %s", name, catalogue(admitted))}
	case len(meant) > 1:
		return nil, &NotFoundError{fmt.Sprintf("the Baselines %s have a namespace %s: set spec.baselineRef.name to one of them", namesOf(meant), namespace)}
	}
	return nil, &NotFoundError{fmt.Sprintf("no Baseline for this workspace has a namespace %s: set spec.baselineRef.name, or create it in the namespace that a Baseline has; %s", namespace, catalogue(admitted))}
}

// catalogue says which Baselines a workspace has.
func catalogue(admitted []*sandbarv1alpha1.Baseline) string {
	if len(admitted) == 0 {
		return "the workspace has none: ask the operator"
	}
	return "it has " + namesOf(admitted) + " (sandbar baselines)"
}

// maxNames is how many names a message has before it counts the rest.
const maxNames = 5

func namesOf(list []*sandbarv1alpha1.Baseline) string {
	var names []string
	for _, b := range list {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}

// Namespace returns the namespace of the runtime cluster that a Baseline has under an alias. A reserved one is under none: a
// CRD can be edited.
func Namespace(spec *sandbarv1alpha1.BaselineSpec, alias string) (string, bool) {
	for _, n := range spec.Namespaces {
		if n.Alias() == alias && !Reserved(n.Name) {
			return n.Name, true
		}
	}
	return "", false
}

// Aliases are the names by which tenants know the namespaces of a Baseline.
func Aliases(spec *sandbarv1alpha1.BaselineSpec) []string {
	var aliases []string
	for _, n := range spec.Namespaces {
		if !Reserved(n.Name) {
			aliases = append(aliases, n.Alias())
		}
	}
	return aliases
}
