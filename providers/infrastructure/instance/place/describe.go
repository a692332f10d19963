// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// MaxDescription is how many bytes of one field of a description a namespace carries; a longer one is left
// out. The schema of the kind Sandbox admits none.
const MaxDescription = 2048

// defaultOwnerType is the type of an owner that names none.
const defaultOwnerType = "user"

// descriptiveLabels and descriptiveAnnotations are by which names a namespace carries the fields with which
// a tenant describes its object, and how each is read. What is of another type describes nothing.
var (
	descriptiveLabels = map[string]func(spec map[string]any) string{
		placement.LabelProject:    func(spec map[string]any) string { return idOf(spec["projectRef"]) },
		placement.LabelVisibility: func(spec map[string]any) string { return textOf(spec["visibility"]) },
	}
	descriptiveAnnotations = map[string]func(spec map[string]any) string{
		placement.AnnotationDisplayName: func(spec map[string]any) string { return textOf(spec["displayName"]) },
		placement.AnnotationOwner:       func(spec map[string]any) string { return ownerOf(spec["owner"]) },
		placement.AnnotationTags:        func(spec map[string]any) string { return tagsOf(spec["tags"]) },
	}
)

// describe adds to labels and annotations what the object says of itself. A tenant's word describes and
// decides nothing: the names are fixed, and what cannot be a label's value is left out.
func describe(obj *unstructured.Unstructured, labels, annotations map[string]string) {
	spec, _ := obj.Object["spec"].(map[string]any)
	for label, read := range descriptiveLabels {
		if value := read(spec); value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			labels[label] = value
		}
	}
	for annotation, read := range descriptiveAnnotations {
		if value := read(spec); value != "" && len(value) <= MaxDescription {
			annotations[annotation] = value
		}
	}
}

// Described returns what an object says of itself, as labels and as annotations. The part of a compound instance has them, so
// that what is made for the part describes the instance (inheritDescription).
func Described(obj *unstructured.Unstructured) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	describe(obj, labels, annotations)
	return labels, annotations
}

// DescriptiveLabels are the names of the labels that Described returns, sorted.
func DescriptiveLabels() []string { return slices.Sorted(maps.Keys(descriptiveLabels)) }

// DescriptiveAnnotations are the names of the annotations that Described returns, sorted.
func DescriptiveAnnotations() []string { return slices.Sorted(maps.Keys(descriptiveAnnotations)) }

// inheritDescription adds to labels and annotations what the object's own labels and annotations of these names say, where its
// spec says nothing.
func inheritDescription(obj *unstructured.Unstructured, labels, annotations map[string]string) {
	for label := range descriptiveLabels {
		if value := obj.GetLabels()[label]; value != "" && labels[label] == "" {
			labels[label] = value
		}
	}
	for annotation := range descriptiveAnnotations {
		if value := obj.GetAnnotations()[annotation]; value != "" && len(value) <= MaxDescription && annotations[annotation] == "" {
			annotations[annotation] = value
		}
	}
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// idOf reads {id}, or a text, which the kind SandboxRunner and Templates of operators have.
func idOf(value any) string {
	if reference, ok := value.(map[string]any); ok {
		return textOf(reference["id"])
	}
	return textOf(value)
}

// ownerOf reads {type, id}, written as type:id, or a text.
func ownerOf(value any) string {
	id := idOf(value)
	owner, ok := value.(map[string]any)
	if !ok || id == "" {
		return id
	}
	return cmp.Or(textOf(owner["type"]), defaultOwnerType) + ":" + id
}

// tagsOf reads a map, written as key=value, or a list of texts. A tag without a value is its key alone.
func tagsOf(value any) string {
	var tags []string
	switch all := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(all)) {
			tag, ok := all[key].(string)
			switch {
			case ok && tag != "":
				tags = append(tags, key+"="+tag)
			case ok:
				tags = append(tags, key)
			}
		}
	case []any:
		for _, tag := range all {
			text, ok := tag.(string)
			if !ok {
				return ""
			}
			tags = append(tags, text)
		}
	case string:
		return all
	}
	return strings.Join(tags, ",")
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
