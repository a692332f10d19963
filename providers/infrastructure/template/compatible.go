// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-sigs/kro/pkg/graph/crd/compat"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// incompatibilities lists, sorted, the ways in which an object that the old schema admits might
// not be admitted, or not be kept whole, by the new one. kro's comparison finds most of them;
// tightened finds those that it leaves out. A nil old schema admits nothing.
func incompatibilities(old, updated *apiextensionsv1.JSONSchemaProps) []string {
	if old == nil {
		return nil
	}
	var changes []string
	for _, change := range compat.Compare(old, updated).BreakingChanges {
		changes = append(changes, describe(change))
	}
	changes = append(changes, tightened("spec", old, updated)...)
	slices.Sort(changes)
	return slices.Compact(changes)
}

// describe words a change with the path of the field that it concerns.
func describe(change compat.Change) string {
	steps := strings.Split("spec"+change.Path, ".properties.")
	path := strings.Join(steps, ".")
	switch change.ChangeType {
	case compat.PropertyRemoved:
		return path + " was removed"
	case compat.PropertyAdded:
		return path + " is new and required"
	default:
		// The last step names the aspect that changed, and the description does too.
		if at := strings.LastIndex(path, "."); at >= 0 {
			path = path[:at]
		}
		text := change.Description()
		return path + ": " + strings.ToLower(text[:1]) + text[1:]
	}
}

// tightened lists constraints that kro's comparison does not look at.
func tightened(path string, old, updated *apiextensionsv1.JSONSchemaProps) []string {
	var changes []string
	add := func(format string, args ...any) {
		changes = append(changes, path+": "+fmt.Sprintf(format, args...))
	}
	if len(old.Enum) == 0 && len(updated.Enum) > 0 {
		add("an enum was added")
	}
	if was, is := listType(old), listType(updated); was != is && is != "atomic" {
		add("the list type changed from %s to %s, so items must be unique now", was, is)
	}
	if old.Format != updated.Format && updated.Format != "" {
		add("the format changed to %s", updated.Format)
	}
	if isTrue(old.XPreserveUnknownFields) && !isTrue(updated.XPreserveUnknownFields) {
		add("unknown fields are not kept any more")
	}
	if old.Nullable && !updated.Nullable {
		add("null is not admitted any more")
	}
	for _, rule := range updated.XValidations {
		if !slices.ContainsFunc(old.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule }) {
			add("the validation %q was added", rule.Rule)
		}
	}
	changes = append(changes, tightenedValues(path, old, updated)...)
	for name, oldProperty := range old.Properties {
		if property, ok := updated.Properties[name]; ok {
			changes = append(changes, tightened(path+"."+name, &oldProperty, &property)...)
		}
	}
	if old.Items != nil && updated.Items != nil && old.Items.Schema != nil && updated.Items.Schema != nil {
		changes = append(changes, tightened(path+".items", old.Items.Schema, updated.Items.Schema)...)
	}
	return changes
}

// tightenedValues compares the values of maps.
func tightenedValues(path string, old, updated *apiextensionsv1.JSONSchemaProps) []string {
	had := old.AdditionalProperties != nil && old.AdditionalProperties.Schema != nil
	has := updated.AdditionalProperties != nil && updated.AdditionalProperties.Schema != nil
	switch {
	case had && has:
		return incompatibleValues(path+".*", old.AdditionalProperties.Schema, updated.AdditionalProperties.Schema)
	case had && !isTrue(updated.XPreserveUnknownFields):
		return []string{path + ": is not a map any more"}
	case has && isTrue(old.XPreserveUnknownFields):
		return []string{path + ": admitted anything and is a map now"}
	}
	return nil
}

func incompatibleValues(path string, old, updated *apiextensionsv1.JSONSchemaProps) []string {
	var changes []string
	for _, change := range compat.Compare(old, updated).BreakingChanges {
		changes = append(changes, path+strings.TrimPrefix(describe(change), "spec"))
	}
	return append(changes, tightened(path, old, updated)...)
}

// listType is the type of a list; a set and a map admit each item, or key, once.
func listType(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema.XListType == nil {
		return "atomic"
	}
	return *schema.XListType
}

func isTrue(b *bool) bool { return b != nil && *b }
