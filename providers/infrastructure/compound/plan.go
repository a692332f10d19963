// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// fieldSuspended is the field that every kind has.
const fieldSuspended = "suspended"

// Plan is what one part of a compound instance has to be.
type Plan struct {
	// Kind is that of the part.
	Kind string
	// Part is the whole of it, as it is created; nil if the instance is to have none of the kind.
	Part *unstructured.Unstructured
	// Refused says what of the instance's spec cannot be; the zero value if all of it can. The part stays as it is then, or is
	// not made; whether it is suspended, and whether it is to be at all, counts in any case.
	Refused Verdict

	// fields are those of the part's spec that are the instance's to say, and always those that it says although its spec is
	// refused.
	fields, always []string
	// fixed is the one of fields that nobody can change in a part that is there: another part takes its place. Empty for none.
	fixed string
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
	OK bool
	// Unknown: it is not known yet whether it is OK, which it is not.
	Unknown         bool
	Reason, Message string
}

// PlanCopies is the plan for the part that has copies of the workloads. suspended: it is to have no pods, by the tenant's word or at
// the end of its time.
func PlanCopies(obj *unstructured.Unstructured, words *scope.CompoundWords, suspended bool) Plan {
	part := newPart(obj, words.Part)
	if asked := obj.GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]; asked != "" {
		annotations := part.GetAnnotations()
		annotations[sandbarv1alpha1.AnnotationResnapshot] = asked
		part.SetAnnotations(annotations)
	}
	written, _ := obj.Object["spec"].(map[string]any)
	components, _ := componentsOf(obj, words)
	spec := map[string]any{words.To: components, fieldSuspended: suspended}
	if ref, ok := written[contract.BaselineRefField].(map[string]any); ok {
		spec[contract.BaselineRefField] = withoutNulls(ref)
	}
	part.Object["spec"] = spec
	return Plan{
		Kind: part.GetKind(), Part: part, Refused: refusedIn(obj, words),
		// A part has no lifecycle of its own: it would end alone, and be made again.
		fields: []string{words.To, contract.BaselineRefField}, always: []string{fieldSuspended, contract.LifecycleField},
	}
}

// newPart is a part of an instance, but for its spec.
func newPart(obj *unstructured.Unstructured, kind export.Kind) *unstructured.Unstructured {
	part := kind.NewObject()
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
	part.SetLabels(labels)
	part.SetAnnotations(annotations)
	return part
}

// refusedIn says what of an instance's spec cannot be.
func refusedIn(obj *unstructured.Unstructured, words *scope.CompoundWords) Verdict {
	_, refused := componentsOf(obj, words)
	return firstRefused(unseenUse(obj), refused)
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
