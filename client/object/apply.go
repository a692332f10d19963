// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Outcome is what a write has done to an object.
type Outcome string

// Outcomes of Apply.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
)

// FieldConflictError means that an object has fields which other field managers have set to other values.
type FieldConflictError struct {
	Name   string
	Fields []Change
	Err    error
}

// Unwrap returns Err.
func (e *FieldConflictError) Unwrap() error { return e.Err }

// Error implements error.
func (e *FieldConflictError) Error() string {
	var texts []string
	for _, f := range e.Fields[:min(mostChanges, len(e.Fields))] {
		texts = append(texts, fmt.Sprintf("%s (by %s)", f.Path, f.Manager))
	}
	if len(e.Fields) > mostChanges {
		texts = append(texts, "and others")
	}
	return fmt.Sprintf("%s has fields that other programs have set to other values: %s", e.Name, strings.Join(texts, ", "))
}

// Apply makes an object have the fields of obj, by server-side apply: fields that this package applied before and that
// obj does not have any more are taken away. Fields of other field managers are refused with a [FieldConflictError],
// unless force takes them over. A resourceVersion in obj is a precondition, and so is a UID: an object that has either and
// is not there is not created.
//
// What this package wrote without apply, as by Create and Mark, is its own too: the server takes that for another
// manager of the same name.
func (c *Client) Apply(ctx context.Context, k Kind, namespace string, obj *unstructured.Unstructured, force bool, opts WriteOptions) (*unstructured.Unstructured, Outcome, error) {
	obj = obj.DeepCopy()
	obj.SetGroupVersionKind(k.GVK())
	obj.SetManagedFields(nil)
	before, err := c.of(k, namespace).Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("reading %s %s: %w", k.Resource.Resource, obj.GetName(), err)
	}
	if apierrors.IsNotFound(err) {
		before = nil
		// The server says it in words about UIDs that do not match.
		if obj.GetUID() != "" || obj.GetResourceVersion() != "" {
			return nil, "", fmt.Errorf("there is no %s %s, and the manifest is of one that existed: take metadata.uid and metadata.resourceVersion out of it to create another one", k.Name, obj.GetName())
		}
	}
	write := func(obj *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
		return c.of(k, namespace).Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{DryRun: opts.dryRun(), FieldManager: FieldManager, Force: force})
	}
	applied, err := write(obj, force)
	if before != nil && areOurs(fieldConflicts(err)) {
		again := obj.DeepCopy()
		if again.GetResourceVersion() == "" {
			again.SetResourceVersion(before.GetResourceVersion()) // so that nobody else's field is taken over
		}
		applied, err = write(again, true)
	}
	switch {
	case apierrors.IsConflict(err) && len(fieldConflicts(err)) > 0:
		return nil, "", &FieldConflictError{Name: obj.GetName(), Fields: fieldConflicts(err), Err: err}
	case apierrors.IsConflict(err) && before != nil && obj.GetResourceVersion() != "":
		want := func(begun *unstructured.Unstructured) *unstructured.Unstructured { return merged(begun, obj.Object) }
		return nil, "", c.conflict(ctx, k, before, obj.GetResourceVersion(), want, err)
	case err != nil:
		return nil, "", fmt.Errorf("applying %s %s: %w", k.Resource.Resource, obj.GetName(), tidy(err))
	case before == nil:
		return applied, Created, nil
	case sameButStatus(before, applied):
		return applied, Unchanged, nil
	}
	return applied, Configured, nil
}

// sameButStatus reports whether two versions of an object differ in their status at most, which apply does not write.
// Their resourceVersions do not say that: a controller may have written the object in between.
func sameButStatus(before, after *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(changesOf(before, after), func(c Change) bool { return c.Path != "status" })
}

// areOurs reports whether all fields of a conflict were written by this package.
func areOurs(fields []Change) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f Change) bool { return f.Manager != FieldManager })
}

// managerOf finds the field manager in the server's text about one field.
var managerOf = regexp.MustCompile(`conflict with "([^"]+)"`)

// fieldConflicts are the fields of an error of server-side apply.
func fieldConflicts(err error) []Change {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var found []Change
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		change := Change{Path: strings.TrimPrefix(cause.Field, "."), Manager: "another program"}
		if m := managerOf.FindStringSubmatch(cause.Message); m != nil {
			change.Manager = m[1]
		}
		found = append(found, change)
	}
	return found
}
