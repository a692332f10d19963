// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// MaxDescription is how many bytes of one field of a description a namespace carries; a longer one is left
// out. The schema of the kind Sandbox admits none.
const MaxDescription = 2048

// descriptiveLabels and descriptiveAnnotations are by which names a namespace carries the fields with which
// a tenant describes its object.
var (
	descriptiveLabels      = map[string]string{placement.LabelProject: "projectRef", placement.LabelVisibility: "visibility"}
	descriptiveAnnotations = map[string]string{
		placement.AnnotationDisplayName: "displayName", placement.AnnotationOwner: "owner", placement.AnnotationTags: "tags",
	}
)

// describe adds to labels and annotations what the object says of itself. A tenant's word describes and
// decides nothing: the names are fixed, and what cannot be a label's value is left out.
func describe(obj *unstructured.Unstructured, labels, annotations map[string]string) {
	for label, field := range descriptiveLabels {
		if value := described(obj, field); value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			labels[label] = value
		}
	}
	for annotation, field := range descriptiveAnnotations {
		if value := described(obj, field); value != "" && len(value) <= MaxDescription {
			annotations[annotation] = value
		}
	}
}

// described reads a field that is a text or a list of texts.
func described(obj *unstructured.Unstructured, field string) string {
	if text, ok, err := unstructured.NestedString(obj.Object, "spec", field); ok && err == nil {
		return text
	}
	list, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", field) // of another type it describes nothing
	return strings.Join(list, ",")
}

// describesOtherwise reports whether one of two namespaces lacks a word of the description that the other
// has, or has another.
func describesOtherwise(a, b metav1.Object) bool {
	for label := range descriptiveLabels {
		if a.GetLabels()[label] != b.GetLabels()[label] {
			return true
		}
	}
	for annotation := range descriptiveAnnotations {
		if a.GetAnnotations()[annotation] != b.GetAnnotations()[annotation] {
			return true
		}
	}
	return false
}
