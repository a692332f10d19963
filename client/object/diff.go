// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// contextLines is how many lines a difference shows around a change.
const contextLines = 3

// Diff is the three-way difference as text: what has changed on the server since the version that the caller knows, with
// who wrote each field and when, and what the caller's own change does to that version, each as a unified difference of
// YAML. Lines that begin with '#' are remarks, which patch ignores. It is empty if the object is gone, or cannot be read.
func (e *ConflictError) Diff() (string, error) {
	if e.Gone || e.Current == nil {
		return "", nil
	}
	var text strings.Builder
	known, now := "version "+e.Version, "version "+e.Current.GetResourceVersion()
	switch {
	case e.Before != nil:
		fmt.Fprintf(&text, "# %s has changed since %s:\n", e.Name, known)
		for _, c := range e.Changes {
			fmt.Fprintf(&text, "#   %s\n", c.dated())
		}
		if err := writeDiff(&text, known, e.Before, now, e.Current); err != nil {
			return "", err
		}
		if e.Yours == nil || len(differences(nil, contentOf(e.Before), contentOf(e.Yours))) == 0 {
			return text.String(), nil
		}
		fmt.Fprintf(&text, "# Your change of %s:\n", known)
		if err := writeDiff(&text, known, e.Before, "yours", e.Yours); err != nil {
			return "", err
		}
		if both := e.both(); len(both) > 0 {
			fmt.Fprintf(&text, "# Changed by both, to different values: %s\n", strings.Join(both, ", "))
		}
	default:
		fmt.Fprintf(&text, "# The server does not have %s of %s any more.\n", known, e.Name)
		if e.Last.Manager != "" {
			fmt.Fprintf(&text, "# The last change: %s\n", e.Last.dated())
		}
		if e.Yours == nil {
			return text.String(), nil
		}
		fmt.Fprintf(&text, "# Your change, compared with %s:\n", now)
		if err := writeDiff(&text, now, e.Current, "yours", e.Yours); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// dated is String with the time.
func (c Change) dated() string {
	switch {
	case c.Manager == "":
		return c.Path
	case c.Path == "":
		return fmt.Sprintf("by %s at %s, %s ago", c.Manager, c.Time.UTC().Format(time.RFC3339), duration.HumanDuration(max(0, time.Since(c.Time))))
	}
	return c.Path + " " + Change{Manager: c.Manager, Time: c.Time}.dated()
}

// both returns the fields that the caller and the server have changed to different values.
func (e *ConflictError) both() []string {
	before, now, yours := contentOf(e.Before), contentOf(e.Current), contentOf(e.Yours)
	var found []string
	theirs := differences(nil, before, now)
	for _, path := range differences(nil, before, yours) {
		meets := func(other []string) bool {
			n := min(len(path), len(other))
			return slices.Equal(path[:n], other[:n])
		}
		if slices.ContainsFunc(theirs, meets) && len(differences(nil, at(now, path), at(yours, path))) > 0 {
			found = append(found, strings.Join(path, "."))
		}
	}
	return found
}

// at returns the value of a field; nil if it is not there.
func at(fields map[string]any, path []string) any {
	value, _, err := unstructured.NestedFieldNoCopy(fields, path...)
	if err != nil {
		return nil // there is a value where the path has fields
	}
	return value
}

// writeDiff writes the difference of two versions of an object; nothing if there is none.
func writeDiff(text *strings.Builder, from string, before *unstructured.Unstructured, to string, after *unstructured.Unstructured) error {
	left, err := yaml.Marshal(contentOf(before))
	if err != nil {
		return fmt.Errorf("writing %s of %s: %w", from, before.GetName(), err)
	}
	right, err := yaml.Marshal(contentOf(after))
	if err != nil {
		return fmt.Errorf("writing %s of %s: %w", to, after.GetName(), err)
	}
	if err := difflib.WriteUnifiedDiff(text, difflib.UnifiedDiff{
		A: difflib.SplitLines(strings.TrimSuffix(string(left), "\n")), FromFile: from,
		B: difflib.SplitLines(strings.TrimSuffix(string(right), "\n")), ToFile: to, Context: contextLines,
	}); err != nil {
		return fmt.Errorf("comparing %s and %s of %s: %w", from, to, before.GetName(), err)
	}
	return nil
}

// merged returns an object with a JSON merge patch (RFC 7386) applied. It does not change the object.
func merged(obj *unstructured.Unstructured, patch map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: mergedFields(obj.Object, runtime.DeepCopyJSON(patch))}
}

func mergedFields(fields, patch map[string]any) map[string]any {
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isObject:
			old, _ := out[key].(map[string]any)
			out[key] = mergedFields(old, inner)
		default:
			out[key] = value
		}
	}
	return out
}
