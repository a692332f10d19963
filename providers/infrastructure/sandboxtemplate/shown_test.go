// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Claims at a rate would else each read the same SandboxTemplate from kcp, through the virtual workspace.
func TestATemplateThatTheWatchShowsIsReadOnce(t *testing.T) {
	w := newWorld(t, true)
	w.add("own", sandbarv1alpha1.SandboxTemplateSpec{Description: "first"})
	w.shown = map[string]*sandbarv1alpha1.SandboxTemplate{"own": w.templates["own"].DeepCopy()}
	templates := w.r.templates
	named := func() *sandbarv1alpha1.SandboxTemplate {
		t.Helper()
		template, err := templates.Named(t.Context(), keyOf("own"))
		if err != nil {
			t.Fatal(err)
		}
		return template
	}
	for range 100 {
		named().Spec.Description = "changed by who was given it"
	}
	if w.reads != 1 {
		t.Fatalf("it was read %d times by a hundred claims", w.reads)
	}
	if said := named().Spec.Description; said != "first" {
		t.Errorf("one caller has changed what the next one gets: %q", said)
	}
}

func TestATemplateIsReadAgainWhen(t *testing.T) {
	for name, change := range map[string]func(w *world, shown *sandbarv1alpha1.SandboxTemplate){
		"the watch shows another one under its name": func(_ *world, shown *sandbarv1alpha1.SandboxTemplate) { shown.UID = "another" },
		"the watch shows other words":                func(_ *world, shown *sandbarv1alpha1.SandboxTemplate) { shown.Generation++ },
		"it is being deleted": func(_ *world, shown *sandbarv1alpha1.SandboxTemplate) {
			shown.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		},
		"the watch shows none": func(w *world, _ *sandbarv1alpha1.SandboxTemplate) { delete(w.shown, "own") },
		"it was read long ago": func(w *world, _ *sandbarv1alpha1.SandboxTemplate) {
			w.r.templates.read.now = func() time.Time { return time.Now().Add(readFor + time.Second) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			w.add("own", sandbarv1alpha1.SandboxTemplateSpec{Description: "first"})
			w.shown = map[string]*sandbarv1alpha1.SandboxTemplate{"own": w.templates["own"].DeepCopy()}
			if _, err := w.r.templates.Named(t.Context(), keyOf("own")); err != nil {
				t.Fatal(err)
			}
			w.templates["own"].Spec.Description = "second"
			change(w, w.shown["own"])
			template, err := w.r.templates.Named(t.Context(), keyOf("own"))
			if err != nil || template.Spec.Description != "second" {
				t.Errorf("it is as it was: %v, %v", template, err)
			}
		})
	}
}

// A missed deletion must not keep a SandboxTemplate alive: after its time it is read, and kcp says that it is gone.
func TestATemplateWhoseDeletionTheWatchHasMissedIsGoneInTime(t *testing.T) {
	w := newWorld(t, true)
	w.add("own", sandbarv1alpha1.SandboxTemplateSpec{})
	w.shown = map[string]*sandbarv1alpha1.SandboxTemplate{"own": w.templates["own"].DeepCopy()}
	if _, err := w.r.templates.Named(t.Context(), keyOf("own")); err != nil {
		t.Fatal(err)
	}
	delete(w.templates, "own")
	w.r.templates.read.now = func() time.Time { return time.Now().Add(readFor + time.Second) }
	for range 2 {
		if template, err := w.r.templates.Named(t.Context(), keyOf("own")); err != nil || template != nil {
			t.Fatalf("found %v, %v", template, err)
		}
	}
}
