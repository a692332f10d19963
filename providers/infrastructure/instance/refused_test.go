// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// newRevisedPodWorld is a world of a kind with a revision whose tenants write a pod template. Its instance
// is Ready.
func newRevisedPodWorld(t *testing.T) *world {
	t.Helper()
	w := newPodWorld(t)
	w.inKCP.SetGeneration(1)
	w.settings.Revisions = scope.Revisions{Revision: firstRevision, Rollout: rollout.SettingsOf(nil, nil)}
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return at }
	w.settle()
	w.kroSays(activeStatus())
	w.settle()
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Fatalf("the instance is %s: %s", got, w.message())
	}
	w.passes(time.Hour)
	return w
}

func (w *world) isolateWith(class string) {
	w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
	w.settings.Infrastructure.Isolation.RuntimeClassName = class
}

func (w *world) lastObserved() rollout.Observation { return w.observed[len(w.observed)-1] }

// The tenant has changed nothing and its pod serves: it is the operator who has to know. The rollout took
// an instance like this for updated, and went through the whole fleet.
func TestAnOperatorsChangeWhosePodIsRefusedFailsTheRolloutAndNotTheInstance(t *testing.T) {
	w := newRevisedPodWorld(t)
	before := w.composed()
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.isolateWith("another")
	w.refusePods("no such thing")
	w.patches = nil
	w.refused()
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady || w.composed() != before || slices.Contains(w.patches, "status") {
		t.Errorf("the tenant reads %s, %s, and read %s", got, w.composed(), before)
	}
	if class := w.podField("runtimeClassName"); class != nil || w.revision() != firstRevision {
		t.Errorf("the instance has the class %v and the revision %s, want what it had", class, w.revision())
	}
	if since := updatingSince(w.kroInstance()); !since.Equal(w.now()) {
		t.Errorf("it takes the change since %s", since)
	}
	o := w.lastObserved()
	if o.Outdated || !o.Ready.IsZero() || !o.Updating.Equal(w.now()) || !o.Failing || !strings.Contains(o.Refused, `"another"`) {
		t.Errorf("the rollout was told %+v", o)
	}

	w.passes(time.Minute)
	result, err := w.reconciler().Reconcile(t.Context(), testRequest)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("refused for a minute, it is tried again after %v, %v", result.RequeueAfter, err)
	}
	w.failWrites = nil
	w.settle()
	if class := w.podField("runtimeClassName"); class != "another" || w.revision() != secondRevision {
		t.Errorf("no longer refused, it has the class %v and the revision %s", class, w.revision())
	}
	if o := w.lastObserved(); o.Refused != "" || !o.Updating.Equal(w.now()) {
		t.Errorf("the rollout was told %+v", o)
	}
}

func TestAnInstanceThatIsNotReadyFailsTheRolloutIfItsPodIsRefused(t *testing.T) {
	for name, unready := range map[string]func(w *world){
		"it is being made": func(w *world) { w.kroSays(map[string]any{"state": "IN_PROGRESS"}) },
		"it is suspended": func(w *world) {
			w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
			w.inKCP.SetGeneration(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRevisedPodWorld(t)
			unready(w)
			w.settle()
			before := w.phase()
			w.isolateWith("another")
			w.refusePods("no such thing")
			w.refused()
			if o := w.lastObserved(); !o.Updating.Equal(w.now()) || !o.Failing || o.Refused == "" {
				t.Errorf("the rollout was told %+v", o)
			}
			if got := w.phase(); got != before || strings.Contains(w.message(), "operator") {
				t.Errorf("it was %s, and is %s: %s", before, got, w.message())
			}
		})
	}
}

func TestATurnForAChangeThatWasTakenBackIsOver(t *testing.T) {
	w := newRevisedPodWorld(t)
	w.isolateWith("another")
	w.refusePods("no such thing")
	w.refused()
	w.passes(time.Minute)
	w.isolateWith("")
	w.settle()
	if o := w.lastObserved(); o.Refused != "" || o.Failing || !o.Updating.IsZero() || o.Ready.IsZero() {
		t.Errorf("the rollout was told %+v", o)
	}
}

// A tenant who writes a pod that is refused must not fail the operator's rollout, and is told as long as it
// is refused.
func TestAPodThatItsTenantHasWrittenAndIsRefusedIsTheTenants(t *testing.T) {
	w := newRevisedPodWorld(t)
	w.turn = func(r rollout.Request) bool { return r.Changes }
	w.inKCP.SetGeneration(2)
	w.writeSource(map[string]any{"podTemplate": podTemplateOf("b")})
	w.refusePods("violates PodSecurity")
	for i := range 4 {
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonPodRefused) {
			t.Fatalf("at look %d the tenant reads %q", i, said)
		}
		if o := w.lastObserved(); o.Outdated || o.Refused != "" || !o.Updating.IsZero() {
			t.Fatalf("at look %d the rollout was told %+v", i, o)
		}
	}
	w.failWrites = nil
	w.settle()
	if image, _ := w.image(); image != "b" {
		t.Errorf("no longer refused, it has the image %s", image)
	}
	w.isolateWith("another")
	w.settle()
	if o := w.lastObserved(); !o.Outdated || w.podField("runtimeClassName") != nil {
		t.Errorf("the operator's next change takes no turn: %+v", o)
	}
}

// What was refused may be given up without another pod: then nothing but the note is to be written.
func TestAPodThatATenantTakesBackIsNoLongerRefused(t *testing.T) {
	w := newRevisedPodWorld(t)
	w.writeSource(map[string]any{"templateRef": map[string]any{"name": "nosuch"}})
	w.inKCP.SetGeneration(2)
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonTemplateRef) {
		t.Fatalf("the tenant reads %q", said)
	}
	base := sandbarv1alpha1.PodTemplateBase{}
	base.PodTemplate.Raw = []byte(`{"spec":{"containers":[{"name":"main","image":"a"}]}}`)
	w.settings.Pod = &scope.PodWords{Fields: w.settings.Pod.Fields, Offers: podbase.Offers{"nosuch": {Base: base, Usable: true}}}
	w.settle()
	if _, noted := w.kroInstance().GetAnnotations()[place.AnnotationRefused]; noted || w.phase() != sandbarv1alpha1.InstanceReady {
		t.Errorf("it is %s and noted as refused: %v", w.phase(), noted)
	}
}
