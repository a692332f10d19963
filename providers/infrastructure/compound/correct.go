// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// Owns reports whether an instance's part is its own. The name says nothing: others may have made an object of that name.
func Owns(obj, part *unstructured.Unstructured) bool { return place.PartOf(part) == obj.GetUID() }

// Correction is the merge patch that makes a part as a plan says; nil if it is. It holds what is the instance's to say, and
// leaves all else, such as labels of others and the provider's own finalizer.
func Correction(part *unstructured.Unstructured, plan Plan) map[string]any {
	patch := map[string]any{}
	if spec := specCorrection(part, plan); len(spec) > 0 {
		patch["spec"] = spec
	}
	meta := map[string]any{}
	if refs, differ := withOwner(part.GetOwnerReferences(), plan.Part.GetOwnerReferences()[0]); differ {
		meta["ownerReferences"] = refs
	}
	if labels := differing(part.GetLabels(), plan.Part.GetLabels(), place.DescriptiveLabels()); len(labels) > 0 {
		meta["labels"] = labels
	}
	own := append(place.DescriptiveAnnotations(), placement.AnnotationCompoundUID)
	if _, asks := plan.Part.GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]; asks { // else it may be asked for of the part
		own = append(own, sandbarv1alpha1.AnnotationResnapshot)
	}
	if annotations := differing(part.GetAnnotations(), plan.Part.GetAnnotations(), own); len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if len(patch)+len(meta) == 0 {
		return nil
	}
	// A merge patch replaces whole lists: what somebody has added to one since must not be lost.
	meta["resourceVersion"] = part.GetResourceVersion()
	patch["metadata"] = meta
	return patch
}

// replaces reports whether another part has to take the place of one that is there.
func (p Plan) replaces(part *unstructured.Unstructured) bool {
	if p.fixed == "" || p.Refused.Reason != "" {
		return false
	}
	has, _ := part.Object["spec"].(map[string]any)
	wanted, _ := p.Part.Object["spec"].(map[string]any)
	return !equality.Semantic.DeepEqual(has[p.fixed], wanted[p.fixed])
}

// specCorrection is the part of a correction below spec.
func specCorrection(part *unstructured.Unstructured, plan Plan) map[string]any {
	has, _ := part.Object["spec"].(map[string]any)
	wanted, _ := plan.Part.Object["spec"].(map[string]any)
	own := slices.Clone(plan.always)
	if plan.Refused.Reason == "" {
		own = append(own, plan.fields...)
	}
	patch := map[string]any{}
	for _, name := range own {
		want, wants := wanted[name]
		is, there := has[name]
		switch {
		case name == fieldSuspended && !there && want == false: // its default
		case wants && !equality.Semantic.DeepEqual(withoutNulls(is), want):
			patch[name] = want
		case !wants && there:
			patch[name] = nil
		}
	}
	return patch
}

// withOwner are owner references with the given one, which says who controls the object.
func withOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) (with []metav1.OwnerReference, differ bool) {
	if slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(ref, owner) }) {
		return refs, false
	}
	with = slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == owner.UID })
	return append(with, owner), true
}

// differing is what of some keys has to change.
func differing(has, wanted map[string]string, keys []string) map[string]any {
	patch := map[string]any{}
	for _, key := range keys {
		want, wants := wanted[key]
		is, there := has[key]
		switch {
		case wants && (!there || is != want):
			patch[key] = want
		case !wants && there:
			patch[key] = nil
		}
	}
	return patch
}
