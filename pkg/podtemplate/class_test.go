// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAPlacementClassSaysWhereAPodRuns(t *testing.T) {
	spot := sandbarv1alpha1.PlacementClass{
		NodeSelector: map[string]string{"pool": "spot"}, Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		RuntimeClassName: "gvisor", PriorityClassName: "low",
	}
	rules := Rules{PodSecurity: "restricted", RuntimeClassName: "usual", PlacementClasses: map[string]sandbarv1alpha1.PlacementClass{"spot": spot, "any": {}}}
	own := sandbarv1alpha1.SandboxTemplateSpec{Template: &sandbarv1alpha1.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}}}}
	build := func(spec sandbarv1alpha1.SandboxTemplateSpec, on *Base) (*Pod, error) {
		base, err := OwnBase(&spec, on)
		if err != nil {
			t.Fatal(err)
		}
		return Build(&sandbarv1alpha1.PodTemplateSource{TemplateRef: &sandbarv1alpha1.PodTemplateRef{}}, base, nil, rules)
	}
	t.Run("all of it is in the pod, although a tenant could not write it", func(t *testing.T) {
		own := own
		own.PlacementClass = "spot"
		pod, err := build(own, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := pod.Template.Spec
		if diff := cmp.Diff(spot.NodeSelector, got.NodeSelector); diff != "" {
			t.Error(diff)
		}
		if !slices.Equal(got.Tolerations, spot.Tolerations) || *got.RuntimeClassName != "gvisor" || got.PriorityClassName != "low" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("one that says nothing changes nothing", func(t *testing.T) {
		plain, err := build(own, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := own
		in.PlacementClass = "any"
		pod, err := build(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain.Template, pod.Template); diff != "" {
			t.Errorf("without a class and in an empty one:\n%s", diff)
		}
	})
	t.Run("it wins over the operator's own template, and leaves that as it is", func(t *testing.T) {
		offer, err := NewBase(&sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(`{"spec":{"nodeSelector":{"pool":"usual","zone":"a"},"containers":[{"name":"main","image":"x"}]}}`)}})
		if err != nil {
			t.Fatal(err)
		}
		pod, err := build(sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Name: "offer"}, PlacementClass: "spot"}, offer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"pool": "spot", "zone": "a"}, pod.Template.Spec.NodeSelector); diff != "" {
			t.Error(diff)
		}
		if offer.Template.Spec.NodeSelector["pool"] != "usual" {
			t.Error("the operator's template was changed")
		}
	})
	t.Run("one template has that of the one that it rests on, unless it names its own", func(t *testing.T) {
		rests := own
		rests.PlacementClass = "spot"
		base, err := OwnBase(&rests, nil)
		if err != nil {
			t.Fatal(err)
		}
		for class, want := range map[string]string{"": "spot", "any": "any"} {
			got, err := OwnBase(&sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: &sandbarv1alpha1.PodTemplateRef{}, PlacementClass: class}, base)
			if err != nil || got.PlacementClass != want {
				t.Errorf("%q: %v, %v", class, got, err)
			}
		}
	})
	t.Run("one that the operator does not have is refused, with those that there are", func(t *testing.T) {
		in := own
		in.PlacementClass = "fast"
		_, err := build(in, nil)
		var unknown *UnknownClassError
		if !errors.As(err, &unknown) || unknown.Error() != `there is no placement class "fast"; the operator has any, spot` {
			t.Errorf("%v", err)
		}
	})
}
