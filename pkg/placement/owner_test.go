// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestANamespaceTellsWhosePlacementItIs(t *testing.T) {
	owner, object := Owner{Cluster: "tenant", UID: "owner"}, types.NamespacedName{Namespace: "team-a", Name: "web"}
	cold := Placed{ID: owner.Cold(), Owner: owner, Object: object}
	born := Placed{ID: ID{Origin: "provider", UID: "born-1"}, Owner: owner, Object: object}
	for name, test := range map[string]struct {
		placed   Placed
		change   func(*corev1.Namespace)
		want     Placed
		ok       bool
		instance string
	}{
		"made for its owner":     {placed: cold, want: cold, ok: true, instance: "web"},
		"there before its owner": {placed: born, want: born, ok: true, instance: BornInstance},
		"of a release without":   {placed: cold, change: withoutOwner, want: cold, ok: true, instance: "web"},
		// The labels of one that was made for its owner are an index.
		"with half an owner":       {placed: cold, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelOwnerCluster) }, want: cold, ok: true, instance: "web"},
		"with the other half":      {placed: cold, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelOwnerUID) }, want: cold, ok: true, instance: "web"},
		"with another's label":     {placed: cold, change: func(ns *corev1.Namespace) { ns.Labels[LabelOwnerUID] = "another" }, want: cold, ok: true, instance: "web"},
		"born, with half":          {placed: born, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelOwnerCluster) }},
		"born, of the other half":  {placed: born, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelOwnerUID) }},
		"born, with none":          {placed: born, change: withoutOwner},
		"without an object's name": {placed: born, change: func(ns *corev1.Namespace) { delete(ns.Annotations, AnnotationInstanceName) }},
		"without an owner yet": {placed: born, change: func(ns *corev1.Namespace) {
			withoutOwner(ns)
			ns.Annotations = nil
		}},
		"under another's name": {placed: born, change: func(ns *corev1.Namespace) { ns.Name = cold.Namespace() }},
		"without its UID":      {placed: cold, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelInstanceUID) }},
		"without its cluster":  {placed: cold, change: func(ns *corev1.Namespace) { delete(ns.Labels, LabelCluster) }},
		"of the system":        {placed: cold, change: func(ns *corev1.Namespace) { ns.Name = "kube-system" }},
	} {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: test.placed.Namespace(), Labels: test.placed.NamespaceLabels("thing"),
				Annotations: map[string]string{AnnotationInstanceNamespace: "team-a", AnnotationInstanceName: "web"},
			}}
			if test.change != nil {
				test.change(ns)
			}
			got, ok := Of(ns)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
				t.Errorf("ok %v, -want +got:\n%s", ok, diff)
			}
			if ok && got.InstanceName() != test.instance {
				t.Errorf("its kro instance is %q, want %q", got.InstanceName(), test.instance)
			}
		})
	}
}

func withoutOwner(ns *corev1.Namespace) {
	delete(ns.Labels, LabelOwnerUID)
	delete(ns.Labels, LabelOwnerCluster)
}
