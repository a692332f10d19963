// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

const (
	firstRevision  = "aaaaaaaa-11111111"
	secondRevision = "bbbbbbbb-22222222"
)

// newRevisedWorld is a world of a Template with a revision, whose instance is Ready with it.
func newRevisedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settings.Revisions = scope.Revisions{Revision: firstRevision, Rollout: rollout.SettingsOf(nil, nil)}
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return at }
	w.settle()
	w.kroSays(activeStatus())
	w.settle()
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Fatalf("the instance is %s", got)
	}
	return w
}

func activeStatus() map[string]any {
	ns := placement.ID{Origin: fixture.Cluster, UID: fixture.UID}.Namespace()
	ref := map[string]any{"name": "x", "namespace": ns}
	return map[string]any{"state": "ACTIVE", "controlSecretRef": ref, "refs": map[string]any{"control": ref}}
}

func (w *world) status() sandbarv1alpha1.InstanceStatus {
	w.t.Helper()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

func (w *world) phase() sandbarv1alpha1.InstancePhase { return w.status().Phase }

func (w *world) message() string {
	return meta.FindStatusCondition(w.status().Conditions, sandbarv1alpha1.InstanceReadyCondition).Message
}

// revision is the one that the kro instance has, in its spec and in its labels.
func (w *world) revision() string {
	w.t.Helper()
	instance := w.kroInstance()
	revision, _, _ := unstructured.NestedString(instance.Object, "spec", "sandbarRevision")
	graph, _, _ := strings.Cut(revision, "-")
	if labels := instance.GetLabels(); labels[placement.LabelRevision] != revision || labels[placement.LabelGraph] != graph {
		w.t.Errorf("the labels are %v, and the revision is %q", labels, revision)
	}
	return revision
}

func (w *world) passes(d time.Duration) {
	at := w.now().Add(d)
	w.now = func() time.Time { return at }
}

func TestANewInstanceGetsThePresentRevision(t *testing.T) {
	if got := newRevisedWorld(t).revision(); got != firstRevision {
		t.Errorf("it has %q", got)
	}
}

func TestANewInstanceOfAPausedRolloutGetsTheFormerRevision(t *testing.T) {
	w := newWorld(t)
	w.settings.Revisions = scope.Revisions{Revision: secondRevision, Former: firstRevision}
	w.turn = func(rollout.Request) bool { return false }
	w.settle()
	if got := w.revision(); got != firstRevision {
		t.Errorf("it has %q", got)
	}
	if o := w.observed[0]; !o.Outdated {
		t.Errorf("at the first look the rollout was told that it is up to date: %+v", o)
	}
}

// Where no revision came before, the present one is all that there is.
func TestANewInstanceOfAPausedFirstRolloutIsUpToDate(t *testing.T) {
	w := newWorld(t)
	w.settings.Revisions = scope.Revisions{Revision: secondRevision}
	w.turn = func(rollout.Request) bool { return false }
	w.settle()
	if o := w.observed[0]; o.Outdated || w.revision() != secondRevision {
		t.Errorf("it has %s, and the rollout was told %+v", w.revision(), o)
	}
}

func TestWithoutARevisionTheFieldIsNotWritten(t *testing.T) {
	w := newWorld(t)
	w.settle()
	if _, found, _ := unstructured.NestedString(w.kroInstance().Object, "spec", "sandbarRevision"); found || len(w.asked) > 0 {
		t.Error("a field was written that kro's kind may not have")
	}
}

func TestAChangeWaitsForItsTurn(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.turn = func(rollout.Request) bool { return false }
	w.settle()
	if got := w.revision(); got != firstRevision {
		t.Errorf("it has %q before its turn", got)
	}
	if o := w.observed[len(w.observed)-1]; !o.Outdated || o.Ready.IsZero() || o.Target != secondRevision {
		t.Errorf("the rollout was told %+v", o)
	}
	if r := w.asked[len(w.asked)-1]; !r.Exists || r.Changes || r.Target != secondRevision {
		t.Errorf("the rollout was asked %+v", r)
	}
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Errorf("the tenant sees %s: %s", got, w.message())
	}

	w.turn = nil
	w.settle()
	if got := w.revision(); got != secondRevision {
		t.Errorf("it has %q after its turn", got)
	}
}

func TestAnUpdateIsFollowedUntilItHasSettled(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.settle()
	w.kroSays(map[string]any{"state": "IN_PROGRESS"})
	w.settle()
	if o := w.observed[len(w.observed)-1]; !o.Updating.Equal(w.now()) || !o.Ready.IsZero() || !o.Unready.Equal(w.now()) {
		t.Errorf("the rollout was told %+v", o)
	}
	if got := w.phase(); got != sandbarv1alpha1.InstanceMaterializing || !strings.Contains(w.message(), "the operator has changed") || !strings.Contains(w.message(), "nothing is to be done") {
		t.Errorf("the tenant sees %s: %s", got, w.message())
	}
	w.passes(10 * time.Second)
	w.kroSays(activeStatus())
	w.settle()
	if since := updatingSince(w.kroInstance()); since.IsZero() {
		t.Error("it is settled as soon as it is Ready")
	}
	w.passes(rollout.DefaultMinReady)
	w.settle()
	if since := updatingSince(w.kroInstance()); !since.IsZero() {
		t.Errorf("it is being updated since %s, and was Ready long enough", since)
	}
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Errorf("the tenant sees %s", got)
	}
}

func TestAnInstanceThatWasNotReadyIsNotFollowed(t *testing.T) {
	w := newRevisedWorld(t)
	w.kroSays(map[string]any{"state": "IN_PROGRESS"})
	w.settle()
	w.settings.Revision = secondRevision
	w.settle()
	if since := updatingSince(w.kroInstance()); !since.IsZero() || w.revision() != secondRevision {
		t.Errorf("it has %s and is followed since %s", w.revision(), since)
	}
}

func TestAFailedUpdateIsTheOperators(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.settle()
	w.kroSays(map[string]any{"state": "ERROR", "conditions": []any{map[string]any{
		"type": "ResourcesReady", "status": "False", "message": `node "appRbbbbbbbb": no such image`,
	}}})
	w.settle()
	message := w.message()
	for _, want := range []string{"the operator has changed", "does not run with the change", "the operator was told", "nothing is to be done", "it cannot be composed"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message does not say %q: %s", want, message)
		}
	}
	if strings.Contains(message, "no such image") || strings.Contains(message, "correct") {
		t.Errorf("the tenant is told kro's own words, or to correct what the operator has changed: %s", message)
	}
	if o := w.observed[len(w.observed)-1]; !o.Failing {
		t.Errorf("the rollout was told %+v", o)
	}
}

func TestWhatATenantChangesIsAskedForAsSuch(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.turn = func(r rollout.Request) bool { return r.Changes }
	w.settle()
	if got := w.revision(); got != firstRevision {
		t.Fatalf("it has %q before its turn", got)
	}
	w.inKCP.SetGeneration(2)
	w.inKCP.Object["spec"].(map[string]any)["color"] = "blue"
	w.settle()
	if got := w.revision(); got != secondRevision {
		t.Errorf("it has %q after its tenant has changed it", got)
	}
	if since := updatingSince(w.kroInstance()); !since.IsZero() {
		t.Error("what the tenant changes is followed as an update of the operator")
	}
}

// A tenant's change that may not take the present revision still counts: with the one that there is.
func TestAChangeDuringAPauseKeepsTheRevision(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.turn = func(rollout.Request) bool { return false }
	w.inKCP.SetGeneration(2)
	w.inKCP.Object["spec"].(map[string]any)["color"] = "blue"
	w.settle()
	color, _, _ := unstructured.NestedString(w.kroInstance().Object, "spec", "color")
	if w.revision() != firstRevision || color != "blue" {
		t.Errorf("it has %q and the color %q", w.revision(), color)
	}
}

func TestWakingTakesThePresentRevision(t *testing.T) {
	w := newRevisedWorld(t)
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.inKCP.SetGeneration(2)
	w.settle()
	w.settings.Revision = secondRevision
	w.turn = func(r rollout.Request) bool { return r.Changes }
	w.settle()
	if got := w.revision(); got != firstRevision {
		t.Fatalf("asleep it has %q", got)
	}
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = false
	w.settle() // the same generation, as when the lifecycle wakes it
	if got := w.revision(); got != secondRevision {
		t.Errorf("awake it has %q", got)
	}
}

func TestAnotherBaseWaitsForItsTurnToo(t *testing.T) {
	w := newPodWorld(t)
	w.settings.Revisions = scope.Revisions{Revision: firstRevision, Rollout: rollout.SettingsOf(nil, nil)}
	w.settle()
	w.turn = func(r rollout.Request) bool { return r.Changes }
	w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
	w.settings.Infrastructure.Isolation.RuntimeClassName = "another"
	tries := 0
	w.failWrites = func(verb string, obj runtime.Object) error {
		if _, isPod := obj.(*corev1.Pod); isPod && verb == "create" {
			tries++
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no such class"))
		}
		return nil
	}
	w.settle()
	if class := w.podField("runtimeClassName"); class != nil || tries > 0 {
		t.Errorf("the pod has the class %v before its turn, and was tried %d times", class, tries)
	}
	if o := w.observed[len(w.observed)-1]; !o.Outdated {
		t.Errorf("the rollout was told %+v", o)
	}
	w.failWrites = nil
	w.turn = nil
	w.settle()
	if class := w.podField("runtimeClassName"); class != "another" {
		t.Errorf("the pod has the class %v after its turn", class)
	}
}

// A Template that is being mended must not fail the instances that began with it.
func TestABaseThatCannotBeUsedNowLeavesWhatThereIs(t *testing.T) {
	w := newPodWorld(t)
	w.settings.Revisions = scope.Revisions{Revision: firstRevision, Rollout: rollout.SettingsOf(nil, nil)}
	base := sandbarv1alpha1.PodTemplateBase{}
	base.PodTemplate.Raw = []byte(`{"spec":{"containers":[{"name":"main","image":"a"}]}}`)
	w.settings.Pod.Offers = podbase.Offers{"offer": {Base: base, Usable: true}}
	w.writeSource(map[string]any{"templateRef": map[string]any{"name": "offer"}})
	w.settle()
	if image, _ := w.image(); image != "a" {
		t.Fatalf("the image is %s: %s", image, w.composed())
	}
	before := w.composed()
	w.settings.Pod = &scope.PodWords{Fields: w.settings.Pod.Fields, Offers: podbase.Offers{"offer": {Base: base}}}
	w.settle()
	if after := w.composed(); after != before {
		t.Errorf("the tenant reads %s, and read %s", after, before)
	}
}

func (w *world) podField(name string) any {
	w.t.Helper()
	value, _, _ := unstructured.NestedFieldNoCopy(w.kroInstance().Object, "spec", "pod", "template", "spec", name)
	return value
}

func TestAKroThatDoesNotComposeIsNamedByWhatItIs(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.NotComposing = w.now()
	w.settle()
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Errorf("an instance that runs is %s: %s", got, w.message())
	}
	w.kroSays(map[string]any{"state": "IN_PROGRESS"})
	w.settle()
	status := w.status()
	c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceComposed)
	if c.Reason != outcome.ReasonNotComposing || !strings.Contains(w.message(), "the provider has not composed anything since 2026-11-22T10:00:00Z") || strings.Contains(w.message(), "kro") {
		t.Errorf("the tenant reads %s: %s", c.Reason, w.message())
	}
}

// A contract that the present graph can keep and a former one cannot does not make an instance
// unready that has the former one.
func TestAFormerGraphNeedNotHaveTheNewOutputs(t *testing.T) {
	w := newRevisedWorld(t)
	w.settings.Revision, w.settings.Former = secondRevision, firstRevision
	w.settings.DataPlane.Endpoints["new"] = sandbarv1alpha1.Endpoint{ServiceRef: "status.newRef", Port: "x", Methods: []string{"GET"}}
	w.turn = func(rollout.Request) bool { return false }
	w.settle()
	if got := w.phase(); got != sandbarv1alpha1.InstanceReady {
		t.Errorf("it is %s: %s", got, w.message())
	}
	w.turn = nil
	w.settle()
	if got := w.phase(); got == sandbarv1alpha1.InstanceReady {
		t.Error("with the present graph it is Ready without the output")
	}
	if !slices.ContainsFunc(w.asked, func(r rollout.Request) bool { return r.Want == secondRevision }) {
		t.Error("the rollout was never asked")
	}
}

func TestARolloutIsAskedWithWhatTheTemplateSaysOfItsPause(t *testing.T) {
	w := newRevisedWorld(t)
	for phase, want := range map[sandbarv1alpha1.RolloutPhase]bool{
		sandbarv1alpha1.RolloutPaused: true, sandbarv1alpha1.RolloutProgressing: false,
	} {
		template := &sandbarv1alpha1.Template{}
		template.Status.Rollout = &sandbarv1alpha1.RolloutStatus{Revision: secondRevision, Former: firstRevision, Phase: phase}
		w.settings.Revisions = revisionsOf(template, &sandbarv1alpha1.InfrastructureProvider{})
		w.turn = func(rollout.Request) bool { return false }
		w.settle()
		if r := w.asked[len(w.asked)-1]; r.WasPaused != want {
			t.Errorf("%s: the rollout was asked %+v", phase, r)
		}
	}
}
