// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The provider puts its finalizer on an object within the second in which it was created.
func TestTheCreatorIsTheManagerThatWroteTheSpec(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	entry := func(manager, fields string, after time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: new(metav1.NewTime(created.Add(after))),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const spec, finalizer = `{"f:spec":{"f:a":{}}}`, `{"f:metadata":{"f:finalizers":{}}}`
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"beside a finalizer of the same second": {[]metav1.ManagedFieldsEntry{entry("sandbar", finalizer, 0), entry("sandbar-cli", spec, 0)}, "sandbar-cli"},
		"an object without a spec":              {[]metav1.ManagedFieldsEntry{entry("kubectl-create", `{"f:data":{}}`, 0)}, "kubectl-create"},
		"a manager that has written it since":   {[]metav1.ManagedFieldsEntry{entry("sandbar-cli", spec, time.Minute)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetCreationTimestamp(created)
			obj.SetManagedFields(c.entries)
			if got := creatorOf(obj); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
