// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestANamespaceTellsOfWhichSetItIsAMember(t *testing.T) {
	member := Member{
		ID: Bear("tenant"), SetUID: "set", Set: types.NamespacedName{Namespace: "team-a", Name: "warm"}, Revision: "r1", Template: "r1", State: MemberWarm,
	}
	owner := Owner{Cluster: "tenant", UID: "owner"}
	for name, test := range map[string]struct {
		change func(*corev1.Namespace)
		ok     bool
	}{
		"a member":          {change: func(*corev1.Namespace) {}, ok: true},
		"an adopted one":    {change: func(ns *corev1.Namespace) { ns.Labels[LabelOwnerUID], ns.Labels[LabelOwnerCluster] = "owner", "tenant" }},
		"half adopted":      {change: func(ns *corev1.Namespace) { ns.Labels[LabelOwnerUID] = "owner" }},
		"of no set":         {change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelSetUID) }},
		"of a nameless set": {change: func(ns *corev1.Namespace) { delete(ns.Annotations, AnnotationSetName) }},
		"of another name":   {change: func(ns *corev1.Namespace) { ns.Name = owner.Cold().Namespace() }},
		"made for an owner": {change: func(ns *corev1.Namespace) {
			ns.Name, ns.Labels[LabelInstanceUID] = owner.Cold().Namespace(), string(owner.UID)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: member.Namespace(), Labels: member.Labels("thing"), Annotations: member.Annotations(),
			}}
			test.change(ns)
			got, ok := MemberOf(ns)
			if ok != test.ok || ok && got != member {
				t.Errorf("got %v, %v", got, ok)
			}
			if _, owned := Of(ns); owned && ok {
				t.Error("a member has an owner")
			}
		})
	}
}

// Without the label it is looked at again and marked; it does not stand in its set's way for ever.
func TestAMemberWhoseStateNobodyKnowsIsBeingMade(t *testing.T) {
	member := Member{ID: Bear("tenant"), SetUID: "set", Set: types.NamespacedName{Namespace: "team-a", Name: "warm"}}
	for state, want := range map[string]string{"": MemberMaking, "x": MemberMaking, MemberWarm: MemberWarm, MemberLeaving: MemberLeaving} {
		member.State = state
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member.Namespace(), Labels: member.Labels("thing"), Annotations: member.Annotations()}}
		if got, ok := MemberOf(ns); !ok || got.State != want {
			t.Errorf("%q is %q, %v, want %q", state, got.State, ok, want)
		}
	}
}

// A tenant's object whose UID began like a born placement's would be taken for one.
func TestABornPlacementHasAUIDOfItsOwn(t *testing.T) {
	a, b := Bear("tenant"), Bear("tenant")
	if a == b || !a.Born() || (ID{Origin: "tenant", UID: "0b5a9c1e-6a3c-4a52-9b57-2a6ad6a4d3c1"}).Born() {
		t.Errorf("%v and %v", a, b)
	}
}

func TestANamespaceTellsHowItsMemberIsPatched(t *testing.T) {
	member := Member{
		ID: Bear("tenant"), SetUID: "set", Set: types.NamespacedName{Namespace: "team-a", Name: "warm"}, Revision: "patched", Template: "plain", State: MemberWarm,
	}
	for _, patch := range []MemberPatch{PatchedResourcesEqual, PatchedResizable, PatchedResourcesDiffer} {
		member.Patch = patch
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member.Namespace(), Labels: member.Labels("thing"), Annotations: member.Annotations()}}
		if got, ok := MemberOf(ns); !ok || got != member {
			t.Errorf("got %+v, want %+v", got, member)
		}
		ns.Labels[LabelMemberPatch] = "of another release"
		if got, _ := MemberOf(ns); got.Patch != PatchedResourcesDiffer {
			t.Errorf("a patch that nobody knows is %q", got.Patch)
		}
		for _, name := range MemberLabels() {
			delete(ns.Labels, name)
		}
		if _, ok := MemberOf(ns); ok || len(ns.Labels) != len(member.ID.Labels("thing")) {
			t.Errorf("an adoption leaves %v", ns.Labels)
		}
	}
}
