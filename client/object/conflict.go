// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// mostChanges is how many changes the text of a conflict names.
const mostChanges = 5

// Change is a field that has another value than in the version that a caller knows.
type Change struct {
	// Path is the field, spec.lifecycle.shutdownTime for example.
	Path string
	// Manager is the field manager that wrote it last, kubectl-edit for example: kcp records the program of a
	// write and not the person. It is empty, and Time zero, if that is not recorded.
	Manager string
	Time    time.Time
}

func (c Change) String() string {
	if c.Manager == "" {
		return c.Path
	}
	return fmt.Sprintf("%s (by %s, %s ago)", c.Path, c.Manager, duration.HumanDuration(max(0, time.Since(c.Time))))
}

// ConflictError means that an object is not in the version that a caller knows.
type ConflictError struct {
	Kind Kind
	Name string
	// Version is the one that the caller knows, and Current what there is now: nil if the object is gone, and an
	// object with another UID if it was created again.
	Version string
	Current *unstructured.Unstructured
	// Gone reports whether the object that the caller knows is not there any more.
	Gone bool
	// Before is the object in the caller's version; nil if the server does not have it any more.
	Before *unstructured.Unstructured
	// Yours is the object as the caller wanted it: their change of Before, or of Current if Before is nil. It is nil for
	// a deletion.
	Yours *unstructured.Unstructured
	// Changes are the differences of Before and Current; none if Before is nil.
	Changes []Change
	// Last is the latest change that is recorded, with what it wrote as its Path.
	Last Change
	// Err is the server's own error, if it was asked.
	Err error
}

// Unwrap returns Err.
func (e *ConflictError) Unwrap() error { return e.Err }

// Error implements error.
func (e *ConflictError) Error() string {
	switch {
	case e.Gone && e.Current != nil:
		return fmt.Sprintf("the %s %s was deleted and created again since you read it", e.Kind.Name, e.Name)
	case e.Gone:
		return fmt.Sprintf("the %s %s was deleted since you read it", e.Kind.Name, e.Name)
	}
	if e.Current == nil {
		return fmt.Sprintf("%s does not have the version %s any more, and cannot be read now", e.Name, e.Version)
	}
	return fmt.Sprintf("%s has changed since version %s: %s", e.Name, e.Version, e.what())
}

// what names the changes.
func (e *ConflictError) what() string {
	switch {
	case len(e.Changes) > 0:
		var texts []string
		for _, c := range e.Changes[:min(mostChanges, len(e.Changes))] {
			texts = append(texts, c.String())
		}
		switch more := len(e.Changes) - mostChanges; {
		case more == 1:
			texts = append(texts, "and one other field")
		case more > 1:
			texts = append(texts, fmt.Sprintf("and %d other fields", more))
		}
		return strings.Join(texts, ", ")
	case e.Last.Manager != "":
		return fmt.Sprintf("the server has no such version any more; the last change is by %s, %s ago", e.Last.Manager, duration.HumanDuration(max(0, time.Since(e.Last.Time))))
	}
	return "the server has no such version any more"
}

// wanted is an object with a caller's change. It leaves the object that it is given as it is.
type wanted func(*unstructured.Unstructured) *unstructured.Unstructured

// conflict finds out what has changed since a version of an object, and what the caller wanted, which is nil for a
// deletion. It never fails: what cannot be found out is left out of the error.
func (c *Client) conflict(ctx context.Context, k Kind, known *unstructured.Unstructured, version string, want wanted, err error) error {
	conflict := &ConflictError{Kind: k, Name: known.GetName(), Version: version, Err: err}
	current, readErr := c.of(k, known.GetNamespace()).Get(ctx, known.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(readErr):
		conflict.Gone = true
		return conflict
	case readErr != nil:
		return conflict
	}
	conflict.Current = current
	if uid := known.GetUID(); uid != "" && uid != current.GetUID() { // a caller may know a version and no UID
		conflict.Gone = true
		return conflict
	}
	if entry := lastEntry(current, nil); entry != nil {
		conflict.Last = Change{Manager: entry.Manager, Time: entry.Time.Time}
	}
	conflict.Before = known // a caller that keeps the version it has read needs no former one of the server
	if known.GetResourceVersion() != version {
		conflict.Before = c.at(ctx, k, current, version)
	}
	begun := current
	if conflict.Before != nil {
		begun = conflict.Before
		conflict.Changes = changesOf(begun, current)
	}
	if want != nil {
		conflict.Yours = want(begun)
	}
	return conflict
}

// at returns an object as it was in a version, for as long as the server keeps that: some minutes; else nil. A
// single object cannot be read in a former version, but a list can.
func (c *Client) at(ctx context.Context, k Kind, obj *unstructured.Unstructured, version string) *unstructured.Unstructured {
	list, err := c.of(k, obj.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", obj.GetName()).String(),
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetResourceVersion() != version || list.Items[0].GetUID() != obj.GetUID() {
		return nil
	}
	return &list.Items[0]
}

// changesOf returns the fields in which two versions of an object differ, with the managers that wrote the later one.
func changesOf(before, after *unstructured.Unstructured) []Change {
	var changes []Change
	for _, path := range differences(nil, contentOf(before), contentOf(after)) {
		change := Change{Path: strings.Join(path, ".")}
		if entry := lastEntry(after, path); entry != nil {
			change.Manager, change.Time = entry.Manager, entry.Time.Time
		}
		changes = append(changes, change)
	}
	return changes
}

// contentOf is what people change of an object, and its status as one.
func contentOf(obj *unstructured.Unstructured) map[string]any {
	fields := map[string]any{}
	for key, value := range obj.Object {
		if key != "apiVersion" && key != "kind" && key != "metadata" {
			fields[key] = value
		}
	}
	metadata := map[string]any{}
	for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", key); ok {
			metadata[key] = value
		}
	}
	fields["metadata"] = metadata
	return fields
}

// differences returns the paths of the fields that differ. Lists and the status count as one field.
func differences(path []string, before, after any) [][]string {
	left, leftObject := before.(map[string]any)
	right, rightObject := after.(map[string]any)
	switch {
	case reflect.DeepEqual(before, after):
		return nil
	case leftObject && right == nil:
		right = map[string]any{}
	case rightObject && left == nil:
		left = map[string]any{}
	case !leftObject || !rightObject:
		return [][]string{path}
	}
	if len(path) == 1 && path[0] == "status" {
		return [][]string{path}
	}
	keys := maps.Clone(left)
	maps.Copy(keys, right)
	var found [][]string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		found = append(found, differences(append(slices.Clone(path), key), left[key], right[key])...)
	}
	return found
}

// lastEntry returns the latest entry of an object's managedFields that has a field; that has any, if path is nil.
func lastEntry(obj *unstructured.Unstructured, path []string) *metav1.ManagedFieldsEntry {
	var last *metav1.ManagedFieldsEntry
	for _, entry := range obj.GetManagedFields() {
		if entry.Time == nil || last != nil && entry.Time.Before(last.Time) || !owns(entry, path) {
			continue
		}
		last = &entry
	}
	return last
}

// owns reports whether an entry of managedFields has a field, or something in it.
func owns(entry metav1.ManagedFieldsEntry, path []string) bool {
	if path == nil {
		return true
	}
	if entry.FieldsV1 == nil {
		return false
	}
	var set fieldpath.Set
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return false
	}
	var field fieldpath.Path
	for _, name := range path {
		field = append(field, fieldpath.PathElement{FieldName: &name})
	}
	if set.Has(field) {
		return true
	}
	below := &set
	for _, element := range field {
		below = below.WithPrefix(element)
	}
	return !below.Empty()
}
