// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// fieldSuspended is the field that every kind has.
const fieldSuspended = "suspended"

// Plan is what the part of a compound instance has to be.
type Plan struct {
	// Part is the whole of it, as it is created.
	Part *unstructured.Unstructured
	// Refused says what of the instance's spec cannot be; the zero value if all of it can. The part has its former workloads
	// then, or is not made; whether it is suspended counts in any case.
	Refused Verdict

	// to is the field that has the workloads.
	to string
}

// PlanID tells a plan from others.
type PlanID [sha256.Size]byte

// ID is the same for plans that make the same of every part.
func (p Plan) ID() (PlanID, error) {
	text, err := json.Marshal([]any{p.Part, p.Refused.Reason})
	if err != nil {
		return PlanID{}, fmt.Errorf("encoding what the part has to be: %w", err)
	}
	return sha256.Sum256(text), nil
}

// Verdict is what a condition says.
type Verdict struct {
	OK              bool
	Reason, Message string
}

// PlanFor is the plan for a compound instance. suspended: it is to have no pods, by the tenant's word or at the end of its time.
func PlanFor(obj *unstructured.Unstructured, words *scope.CompoundWords, suspended bool) Plan {
	part := words.Part.NewObject()
	part.SetNamespace(obj.GetNamespace())
	part.SetName(obj.GetName())
	part.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(obj, obj.GroupVersionKind())})
	// The part has no description of its own: what is made for it says how the tenant describes the instance.
	labels, annotations := place.Described(obj)
	annotations[placement.AnnotationCompoundUID] = string(obj.GetUID())
	// The admission policy lets the controllers name any creator. It is the one whom the instance names, which the policy has
	// checked, or nobody.
	if creator := obj.GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]; creator != "" {
		annotations[sandbarv1alpha1.AnnotationCreatedBy] = creator
	}
	if asked := obj.GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]; asked != "" {
		annotations[sandbarv1alpha1.AnnotationResnapshot] = asked
	}
	part.SetLabels(labels)
	part.SetAnnotations(annotations)
	written, _ := obj.Object["spec"].(map[string]any)
	components, refused := componentsOf(obj, words)
	spec := map[string]any{words.To: components, fieldSuspended: suspended}
	if ref, ok := written[contract.BaselineRefField].(map[string]any); ok {
		spec[contract.BaselineRefField] = withoutNulls(ref)
	}
	part.Object["spec"] = spec
	return Plan{Part: part, Refused: firstRefused(unseenUse(obj), refused), to: words.To}
}

// componentsOf are the workloads in the form of the part: each is what it inherits, with its name. Fields that are not known
// here go with it, so that a later schema needs no later provider.
func componentsOf(obj *unstructured.Unstructured, words *scope.CompoundWords) (components []any, refused Verdict) {
	from := words.Fields.From
	list, _, _ := unstructured.NestedSlice(obj.Object, "spec", from)
	for i, item := range list {
		workload, _ := item.(map[string]any)
		name, _ := workload["name"].(string)
		inherit, inherits := workload["inherit"].(map[string]any)
		if workload["type"] != sandbarv1alpha1.WorkloadInherits || !inherits {
			return nil, invalid("spec.%s[%d]: set type to %s, and inherit.sourceRef to a workload of a Baseline", from, i, sandbarv1alpha1.WorkloadInherits)
		}
		if over := len(clone.ServiceName(obj.GetName(), name)) - validation.DNS1035LabelMaxLength; over > 0 {
			return nil, invalid("spec.%s[%d].name: %q and the name %q of the %s have %d characters together, and %d is the most: shorten one of them",
				from, i, name, obj.GetName(), obj.GetKind(), len(name)+len(obj.GetName()), len(name)+len(obj.GetName())-over)
		}
		component := map[string]any{"name": name}
		for field, value := range inherit {
			if value != nil && field != "name" {
				component[field] = withoutNulls(value)
			}
		}
		components = append(components, component)
	}
	return components, Verdict{}
}

// withoutNulls is a copy of a value without fields that are null, at any depth. A merge patch writes none: kcp takes those out
// that it finds inside a list, too, and a part with them would differ from its plan for ever. In a pod template null says the same
// as no field.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for name, inside := range value {
			if inside != nil {
				kept[name] = withoutNulls(inside)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, inside := range value {
			kept[i] = withoutNulls(inside)
		}
		return kept
	}
	return value
}

func invalid(format string, args ...any) Verdict {
	return Verdict{Reason: ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

// unseenUse refuses what ends an instance that nobody uses: nobody sees the requests to its copies, so that it would end while
// it is used.
func unseenUse(obj *unstructured.Unstructured) Verdict {
	for _, name := range []string{"sleepAfterUnused", "deleteAfterUnused"} {
		if _, set, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", contract.LifecycleField, name); set {
			return Verdict{Reason: ReasonActivityNotVisible, Message: fmt.Sprintf(
				"spec.%s.%s: requests to copies of workloads are not seen as use; remove it, and set shutdownTime to bound the time", contract.LifecycleField, name)}
		}
	}
	return Verdict{}
}

func firstRefused(verdicts ...Verdict) Verdict {
	for _, v := range verdicts {
		if v.Reason != "" {
			return v
		}
	}
	return Verdict{}
}

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

// specCorrection is the part of a correction below spec. A part has no lifecycle of its own: it would end alone, and be made
// again.
func specCorrection(part *unstructured.Unstructured, plan Plan) map[string]any {
	has, _ := part.Object["spec"].(map[string]any)
	wanted, _ := plan.Part.Object["spec"].(map[string]any)
	own := []string{fieldSuspended, contract.LifecycleField}
	if plan.Refused.Reason == "" {
		own = append(own, plan.to, contract.BaselineRefField)
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
