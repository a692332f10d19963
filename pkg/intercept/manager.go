// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unknownManager is what a manager is called that has not said its name.
const unknownManager = "somebody"

// ManagerOf is the name of the manager, other than Sandbar, that has written the selector of a Service last.
func ManagerOf(s metav1.Object) string {
	last, at := unknownManager, metav1.Time{}
	for _, entry := range s.GetManagedFields() {
		if entry.Manager == FieldOwner || entry.FieldsV1 == nil || !hasSelector(entry.FieldsV1.GetRawBytes()) {
			continue
		}
		if entry.Time != nil && (last == unknownManager || at.Before(entry.Time)) {
			last, at = entry.Manager, *entry.Time
		}
	}
	return last
}

// hasSelector reports whether the fields of a manager (https://kubernetes.io/docs/reference/using-api/server-side-apply/) have the
// selector of a Service among them.
func hasSelector(fields []byte) bool {
	var read struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(fields, &read) != nil {
		return false
	}
	_, has := read.Spec["f:selector"]
	return has
}
