// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// ownTemplate is a SandboxTemplate with a pod of one container.
func ownTemplate(name, uid, image string) *sandbarv1alpha1.SandboxTemplate {
	t := &sandbarv1alpha1.SandboxTemplate{}
	t.Name, t.UID = name, types.UID(uid)
	t.Spec.Template = &sandbarv1alpha1.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
	return t
}

func fromOwn(name string) map[string]any {
	return map[string]any{"templateRef": map[string]any{"kind": sandbarv1alpha1.RefSandboxTemplate, "name": name}}
}

func newOwnWorld(t *testing.T, templates ...*sandbarv1alpha1.SandboxTemplate) *world {
	t.Helper()
	w := newPodWorld(t)
	w.templates = map[string]*sandbarv1alpha1.SandboxTemplate{}
	for _, template := range templates {
		w.templates[template.Name] = template
	}
	return w
}

func TestASandboxIsMadeOfItsSandboxTemplate(t *testing.T) {
	w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
	source := fromOwn("mine")
	source["patch"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "workingDir": "/patched"}}}}
	w.writeSource(source)
	w.settle()
	if image, _ := w.image(); image != "of-mine" {
		t.Errorf("the image is %q", image)
	}
	containers, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "pod", "template", "spec", "containers")
	if dir := containers[0].(map[string]any)["workingDir"]; dir != "/patched" {
		t.Errorf("its own patch is not on it: %v", containers)
	}
}

func TestASandboxWaitsForItsSandboxTemplate(t *testing.T) {
	w := newOwnWorld(t)
	w.writeSource(fromOwn("mine"))
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonTemplateRef) || !strings.Contains(said, `there is no SandboxTemplate "mine"`) {
		t.Errorf("it says %q", said)
	}
	w.templates["mine"] = ownTemplate("mine", "uid-1", "of-mine")
	w.settle()
	if image, _ := w.image(); image != "of-mine" {
		t.Errorf("the image is %q", image)
	}
}

// What the tenant has not asked for does not happen to a Sandbox that runs.
func TestASandboxKeepsItsPodWhenItsSandboxTemplate(t *testing.T) {
	for name, change := range map[string]func(*world){
		"goes": func(w *world) { delete(w.templates, "mine") },
		"goes, and comes again with another pod": func(w *world) {
			delete(w.templates, "mine")
			w.refused()
			w.templates["mine"] = ownTemplate("mine", "uid-2", "of-another")
		},
		"comes again with another pod": func(w *world) { w.templates["mine"] = ownTemplate("mine", "uid-2", "of-another") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
			w.settings.Revision = "r1"
			w.writeSource(fromOwn("mine"))
			w.settle()
			change(w)
			w.refused()
			if image, _ := w.image(); image != "of-mine" {
				t.Errorf("the image is %q", image)
			}
		})
	}
}

func TestASandboxThatIsChangedTakesTheSandboxTemplateThatThereIs(t *testing.T) {
	w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
	w.settings.Revision = "r1"
	w.writeSource(fromOwn("mine"))
	w.settle()
	w.templates["mine"] = ownTemplate("mine", "uid-2", "of-another")
	source := fromOwn("mine")
	source["patch"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "workingDir": "/patched"}}}}
	w.writeSource(source)
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.settle()
	if image, _ := w.image(); image != "of-another" {
		t.Errorf("the image is %q", image)
	}
}

// suspend writes spec.suspended as a tenant does.
func (w *world) suspend(suspended bool) {
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = suspended
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

// Suspending is not an edit of the pod. The template was looked for, and the Sandbox that had been suspended, or
// resumed, with all its data was Failed.
func TestASandboxIsSuspendedAndResumedWithoutItsSandboxTemplate(t *testing.T) {
	for name, change := range map[string]func(*world){
		"that is gone":    func(w *world) { delete(w.templates, "mine") },
		"that is another": func(w *world) { w.templates["mine"] = ownTemplate("mine", "uid-2", "of-another") },
		"that is not valid": func(w *world) {
			w.templates["mine"].Spec.Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"x":1}}`)}
		},
	} {
		for _, revision := range []string{"", "r1"} {
			t.Run(name+", with the revision "+revision, func(t *testing.T) {
				w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
				w.settings.Revision = revision
				w.writeSource(fromOwn("mine"))
				w.settle()
				change(w)
				for _, suspended := range []bool{true, false, true} {
					w.suspend(suspended)
					w.settle()
					if image, is := w.image(); image != "of-mine" || is != suspended {
						t.Fatalf("the image is %q, suspended %v; want suspended %v", image, is, suspended)
					}
					if said := w.composed(); strings.HasPrefix(said, outcome.ReasonTemplateRef) || strings.HasPrefix(said, outcome.ReasonSpecRefused) {
						t.Errorf("suspended %v: it says %q", suspended, said)
					}
				}
			})
		}
	}
}

// What a tenant was told is refused stays refused, however often it suspends its Sandbox.
func TestASuspensionDoesNotMakeUpForARefusedPod(t *testing.T) {
	w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
	w.settings.Revision = "r1"
	w.writeSource(fromOwn("mine"))
	w.settle()
	w.writeSource(fromOwn("nobody-has-this"))
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.refused()
	for _, suspended := range []bool{true, false} {
		w.suspend(suspended)
		w.refused()
		if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonTemplateRef) {
			t.Errorf("suspended %v: it says %q", suspended, said)
		}
		if image, is := w.image(); image != "of-mine" || is != suspended {
			t.Errorf("the image is %q, suspended %v", image, is)
		}
	}
}

func TestWhatIsNotATenantsToSayIsRefusedInASandboxTemplateToo(t *testing.T) {
	bad := ownTemplate("mine", "uid-1", "of-mine")
	bad.Spec.Template.Spec.NodeName = "chosen"
	patched := ownTemplate("patched", "uid-2", "")
	patched.Spec.Template, patched.Spec.TemplateRef = nil, &sandbarv1alpha1.PodTemplateRef{Kind: sandbarv1alpha1.RefSandboxTemplate, Name: "good"}
	patched.Spec.Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"hostNetwork":true}}`)}
	for name, want := range map[string]string{"mine": "nodeName", "patched": "hostNetwork"} {
		t.Run(name, func(t *testing.T) {
			w := newOwnWorld(t, bad, patched, ownTemplate("good", "uid-3", "of-good"))
			w.writeSource(fromOwn(name))
			w.refused()
			if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonSpecRefused) || !strings.Contains(said, want) {
				t.Errorf("it says %q, want a word about %s", said, want)
			}
		})
	}
}
