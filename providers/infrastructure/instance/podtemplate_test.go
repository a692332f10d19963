// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// newPodWorld is a world of a kind whose tenants write a pod template.
func newPodWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settings.pod = &podWords{Fields: sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}}
	w.inKCP.Object["spec"] = map[string]any{}
	w.writeSource(map[string]any{"podTemplate": podTemplateOf("a")})
	return w
}

func podTemplateOf(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}}}
}

func (w *world) writeSource(source map[string]any) {
	w.inKCP.Object["spec"].(map[string]any)["template"] = source
}

// image is that of the pod that kro gets, and whether it is to run.
func (w *world) image() (image string, suspended bool) {
	w.t.Helper()
	spec := w.kroInstance().Object["spec"].(map[string]any)
	if _, there := spec["template"]; there {
		w.t.Error("kro gets the tenant's own field, which its kind does not have")
	}
	containers, _, _ := unstructured.NestedSlice(spec, "pod", "template", "spec", "containers")
	image, _ = containers[0].(map[string]any)["image"].(string)
	suspended, _ = spec["suspended"].(bool)
	return image, suspended
}

func (w *world) composed() string {
	status, err := readStatus(w.inKCP)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range status.Conditions {
		if c.Type == sandbarv1alpha1.InstanceComposed {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// refusePods makes the API server refuse each pod as admission does.
func (w *world) refusePods(message string) {
	w.failWrites = func(verb string, obj runtime.Object) error {
		if _, isPod := obj.(*corev1.Pod); isPod && verb == "create" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(message))
		}
		return nil
	}
}

func TestAPodIsTriedBeforeAnythingIsMadeOfItAndNeverMade(t *testing.T) {
	w := newPodWorld(t)
	w.refusePods("violates PodSecurity")
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, reasonPodRefused) || !strings.Contains(said, "violates PodSecurity") {
		t.Errorf("it says %q", said)
	}
	if slices.Contains(w.writes, "apply Thing") {
		t.Error("the kro instance was made")
	}
	w.failWrites = nil
	w.settle()
	if image, _ := w.image(); image != "a" {
		t.Errorf("kro gets the image %q", image)
	}
	var pods corev1.PodList
	if err := w.runtime.List(t.Context(), &pods, client.InNamespace(w.id().Namespace())); err != nil || len(pods.Items) > 0 {
		t.Errorf("there are pods: %v, %v", pods.Items, err)
	}
}

func TestARefusedPodLeavesTheFormerOneAndTheRestHolds(t *testing.T) {
	for name, source := range map[string]map[string]any{
		"what cannot be built":           {"podTemplate": podTemplateOf("b"), "patch": map[string]any{"spec": map[string]any{"hostNetwork": true}}},
		"a Template that offers nothing": {"templateRef": map[string]any{"name": "nosuch"}},
		"what the API server refuses":    {"podTemplate": podTemplateOf("b")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPodWorld(t)
			w.settle()
			w.writeSource(source)
			w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
			w.refusePods("no")
			w.refused()
			if image, suspended := w.image(); image != "a" || !suspended {
				t.Errorf("kro gets image %q, suspended %v; want the former image, suspended", image, suspended)
			}
			if said := w.composed(); !strings.Contains(said, "template") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func TestAPodThatHasBeenTriedIsNotTriedAgain(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	w.refusePods("no")
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.refused()
	if slices.Contains(w.writes, "create Pod") {
		t.Error("a pod was tried to suspend it")
	}
	if _, suspended := w.image(); !suspended {
		t.Error("it is not suspended")
	}
}

func TestAMissingRuntimeClassIsNamed(t *testing.T) {
	w := newPodWorld(t)
	w.settings.infrastructure = w.settings.infrastructure.DeepCopy()
	w.settings.infrastructure.Isolation.RuntimeClassName = "gvisor"
	w.refusePods("pod rejected")
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, reasonRuntimeClass) || !strings.Contains(said, `"gvisor"`) {
		t.Errorf("it says %q", said)
	}
}

func TestOnlyAReadyTemplateOffersItsPod(t *testing.T) {
	template := func(name string, ready metav1.ConditionStatus, edit func(*sandbarv1alpha1.Template)) sandbarv1alpha1.Template {
		tmpl := sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: name}}
		tmpl.Spec.Base = &sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","image":"of-base"}]}}`)}}
		tmpl.Status = sandbarv1alpha1.TemplateStatus{
			Kind: "A", Group: "sandbar.dev", Version: "v1alpha1", Resource: "as", SchemaName: "x",
			Conditions: []metav1.Condition{{Type: sandbarv1alpha1.TemplateReady, Status: ready}},
		}
		edit(&tmpl)
		return tmpl
	}
	now := metav1.Now()
	offers := podOffers([]sandbarv1alpha1.Template{
		template("good", metav1.ConditionTrue, func(*sandbarv1alpha1.Template) {}),
		template("none", metav1.ConditionTrue, func(t *sandbarv1alpha1.Template) { t.Spec.Base = nil }),
		template("unready", metav1.ConditionFalse, func(*sandbarv1alpha1.Template) {}),
		template("going", metav1.ConditionTrue, func(t *sandbarv1alpha1.Template) { t.DeletionTimestamp = &now }),
	})
	for name, want := range map[string]string{"good": "", "none": "offers a pod template", "unready": "not Ready", "going": "not Ready"} {
		t.Run(name, func(t *testing.T) {
			w := newPodWorld(t)
			w.settings.pod.Offers = offers
			w.writeSource(map[string]any{"templateRef": map[string]any{"name": name}})
			w.refused()
			if want == "" {
				if image, _ := w.image(); image != "of-base" {
					t.Errorf("the image is %q", image)
				}
				return
			}
			if said := w.composed(); !strings.HasPrefix(said, reasonTemplateRef) || !strings.Contains(said, want) {
				t.Errorf("it says %q, want %q", said, want)
			}
		})
	}
}

func TestATenantsPodIsLabelledAsItsOwn(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	label, _, _ := unstructured.NestedString(w.kroInstance().Object, "spec", "pod", "template", "metadata", "labels", placement.LabelInstanceUID)
	if label != testUID {
		t.Errorf("the pod belongs to %q", label)
	}
}

// refused reconciles a few times with an up-to-date cache; a refusal is tried each time.
func (w *world) refused() {
	w.t.Helper()
	for range 3 {
		w.inCache = w.inKCP.DeepCopy()
		w.writes = nil
		if err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
	}
}
