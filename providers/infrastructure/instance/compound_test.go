// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

var heap = export.Kind{GVK: schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "Heap"}, Resource: "heaps"}

// heaps has the part of the instance, as kcp does.
type heaps struct {
	t      *testing.T
	part   *unstructured.Unstructured
	err    error // of all that is asked
	refuse error // of writes
	writes []string
	before func() // each write
}

func (h *heaps) write(verb string) error {
	if h.before != nil {
		h.before()
	}
	h.writes = append(h.writes, verb)
	return h.refuse
}

func (h *heaps) Live(_ context.Context, key export.Key) (*unstructured.Unstructured, error) {
	switch {
	case key != testRequest:
		h.t.Errorf("%v is read", key)
	case h.err != nil:
		return nil, h.err
	case h.part != nil:
		return h.part.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(heap.GVR().GroupResource(), key.Name)
}

func (h *heaps) Known(export.Key) bool { return h.part != nil }

func (h *heaps) Create(_ context.Context, _ export.Key, obj *unstructured.Unstructured) error {
	if err := h.write("create"); err != nil {
		return err
	}
	h.part = obj.DeepCopy()
	h.part.SetUID("the-heap")
	h.part.SetGeneration(1)
	h.part.SetResourceVersion("1")
	return nil
}

func (h *heaps) Patch(_ context.Context, _ export.Key, data []byte, _ ...string) (*unstructured.Unstructured, error) {
	if err := h.write("patch"); err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	version, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion")
	if version != h.part.GetResourceVersion() {
		return nil, apierrors.NewConflict(heap.GVR().GroupResource(), "web", nil)
	}
	h.changed(patch)
	return h.part.DeepCopy(), nil
}

// changed merges a patch, as somebody's write does.
func (h *heaps) changed(patch map[string]any) {
	mergePatch(h.part.Object, patch)
	h.part.SetGeneration(h.part.GetGeneration() + 1)
	number, _ := strconv.Atoi(h.part.GetResourceVersion())
	h.part.SetResourceVersion(strconv.Itoa(number + 1))
}

func (h *heaps) Remove(_ context.Context, _ export.Key, read *unstructured.Unstructured) error {
	if err := h.write("remove"); err != nil {
		return err
	}
	if read.GetResourceVersion() != h.part.GetResourceVersion() {
		return apierrors.NewConflict(heap.GVR().GroupResource(), "web", nil)
	}
	h.part.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	return nil
}

// says is what the controller of parts writes.
func (h *heaps) says(phase, ready string) {
	condition := func(name, status string) map[string]any {
		return map[string]any{"type": name, "status": status, "reason": "Good", "message": "m"}
	}
	h.part.Object["status"] = map[string]any{
		"observedGeneration": h.part.GetGeneration(), "phase": phase, "sandboxID": "sbx-abcd1234",
		"components": []any{map[string]any{"name": "a", "ready": ready == "True"}},
		"conditions": []any{condition("Placed", "True"), condition("Composed", "True"), condition("Ready", ready)},
	}
	if phase == "Suspended" {
		h.part.Object["status"].(map[string]any)["suspension"] = map[string]any{"cause": "ByUser", "since": "2026-01-01T00:00:00Z"}
	}
}

func (h *heaps) suspended() bool {
	value, _, _ := unstructured.NestedBool(h.part.Object, "spec", "suspended")
	return value
}

// newCompoundWorld has an instance with workloads, in the place of a pod.
func newCompoundWorld(t *testing.T) (*world, *heaps) {
	t.Helper()
	w, h := newWorld(t), &heaps{t: t}
	w.parts = h
	w.settings.Compound = &scope.CompoundWords{Fields: sandbarv1alpha1.CompoundFields{From: "workloads", Template: "heap"}, Part: heap, To: "components"}
	w.inKCP.Object["spec"] = map[string]any{"suspended": false, "workloads": []any{
		map[string]any{"name": "a", "type": "inherit", "inherit": map[string]any{"sourceRef": map[string]any{"kind": "Deployment", "name": "a"}}},
	}}
	return w, h
}

// rest reconciles until nothing is written any more, and returns what the last look has said.
func (w *world) rest(h *heaps) reconcile.Result {
	w.t.Helper()
	for range 5 {
		w.patches, w.writes, h.writes = nil, nil, nil
		result, err := w.reconciler().Reconcile(w.t.Context(), testRequest)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(w.patches)+len(h.writes) == 0 {
			return result
		}
	}
	w.t.Fatalf("still writing at rest: %v %v", w.patches, h.writes)
	return reconcile.Result{}
}

func (w *world) changeSpec(name string, value any) {
	w.inKCP.Object["spec"].(map[string]any)[name] = value
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

func (w *world) wantPhase(phase sandbarv1alpha1.InstancePhase, condition, reason string) {
	w.t.Helper()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := fixture.ConditionOf(w.t, w.inKCP, condition); status.Phase != phase || got.Reason != reason || status.ObservedGeneration != w.inKCP.GetGeneration() {
		w.t.Errorf("the phase is %s, want %s; %s says %s (%s), want %s", status.Phase, phase, condition, got.Reason, got.Message, reason)
	}
}

// Of the verbs of its kind those that need a pod of its own are not a compound instance's.
func TestACompoundInstanceHasTheVerbsOfItsWorkloads(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.settings.DataPlane = sandbarv1alpha1.DataPlane{
		Endpoints:     map[string]sandbarv1alpha1.Endpoint{"exec": {PodRef: "status.podRef", PodSubresource: "exec"}, "status": {From: "instanceStatus"}},
		EachComponent: &sandbarv1alpha1.Component{Endpoints: map[string]sandbarv1alpha1.Endpoint{"log": {PodsOf: "Component", PodSubresource: "log"}}},
	}
	w.rest(h)
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil || status.DataPlane == nil || !strings.HasPrefix(status.DataPlane.URL, "https://sandbar.example.test/base/dataplane/clusters/") ||
		!slices.Equal(status.DataPlane.Verbs, []string{"components/a/log", "renew", "status"}) {
		t.Errorf("%+v, %v", status.DataPlane, err)
	}
}

func TestACompoundInstanceHasAPartAndNothingOnTheRuntimeCluster(t *testing.T) {
	w, h := newCompoundWorld(t)
	h.before = func() {
		if !slices.Contains(w.inKCP.GetFinalizers(), placement.Finalizer) {
			t.Error("the part is made before the instance's deletion waits for it")
		}
	}
	w.rest(h)
	w.wantPhase("Materializing", "Ready", "ResourcesPending")
	h.says("Ready", "True")
	w.rest(h)
	w.wantPhase("Ready", "Ready", "WorkloadsReady")
	if key, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "routingKey", "value"); key != "sbx-abcd1234" {
		t.Errorf("the routing key is %q", key)
	}
	if len(w.writes) > 0 || w.kroMade() {
		t.Errorf("on the runtime cluster it writes %v", w.writes)
	}
	w.changeSpec("workloads", append(w.inKCP.Object["spec"].(map[string]any)["workloads"].([]any), map[string]any{"name": "b", "type": "inherit", "inherit": map[string]any{}}))
	if err := w.reconcile(); err != nil || !slices.Equal(h.writes, []string{"patch"}) {
		t.Errorf("%v, %v", h.writes, err)
	}
	w.wantPhase("Materializing", "Ready", "ResourcesPending")
	if components, _, _ := unstructured.NestedSlice(h.part.Object, "spec", "components"); len(components) != 2 {
		t.Errorf("%v", components)
	}
}

// kroMade reports whether there is a kro instance.
func (w *world) kroMade() bool {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fixture.Thing.GVK.GroupVersion().WithKind("ThingList"))
	if err := w.runtime.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return len(list.Items) > 0
}

func TestAnInstanceWithAPodIsAsBeforeWhereOthersHaveWorkloads(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.inKCP = fixture.NewInstance()
	w.settle()
	if !w.kroMade() || len(h.writes) > 0 {
		t.Errorf("it has a part: %v", h.writes)
	}
}

func TestACompoundInstanceIsSuspendedWithItsPart(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.rest(h)
	h.says("Ready", "True")
	w.rest(h)
	w.changeSpec("suspended", true)
	w.rest(h)
	w.wantPhase("Suspending", "Suspended", "ByUser")
	if !h.suspended() {
		t.Error("the part runs")
	}
	h.says("Suspended", "False")
	w.rest(h)
	w.wantPhase("Suspended", "Rendered", "Rendered")
	w.changeSpec("suspended", false)
	w.rest(h)
	w.wantPhase("Waking", "Suspended", "NotSuspended")
	if h.suspended() {
		t.Error("the part does not run")
	}
}

// The part never ends by itself: it would be made again.
func TestTheEndOfACompoundInstanceIsThatOfItsPart(t *testing.T) {
	end := time.Now().Add(time.Hour)
	for policy, deleted := range map[string]bool{"Retain": false, "Suspend": false, "Delete": true} {
		t.Run(policy, func(t *testing.T) {
			w, h := newCompoundWorld(t)
			w.changeSpec("lifecycle", map[string]any{"shutdownTime": end.UTC().Format(time.RFC3339), "shutdownPolicy": policy})
			w.rest(h)
			h.says("Ready", "True")
			if again := w.rest(h).RequeueAfter; again < 59*time.Minute || again > time.Hour {
				t.Errorf("it is looked at again in %v", again)
			}
			if _, set, _ := unstructured.NestedMap(h.part.Object, "spec", "lifecycle"); set {
				t.Error("the part has an end of its own")
			}
			w.now = func() time.Time { return end.Add(time.Second) }
			w.patches, h.writes = nil, nil
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(w.patches, "removed"); got != deleted || h.suspended() == deleted {
				t.Errorf("deleted: %v, the part is suspended: %v", got, h.suspended())
			}
			if !deleted {
				w.wantPhase("Suspending", "Suspended", "Expired")
			}
		})
	}
}

// Nobody sees the use of the copies: what would count on it is refused, and must not be waited for either.
func TestWhatWouldCountOnUseIsRefusedAndNotWaitedFor(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.rest(h)
	h.says("Ready", "True")
	w.rest(h)
	w.changeSpec("lifecycle", map[string]any{"sleepAfterUnused": "1m", "deleteAfterUnused": "2m"})
	if result := w.rest(h); result.RequeueAfter != 0 {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Degraded", "Applied", "ActivityNotVisible")
	w.now = func() time.Time { return time.Now().Add(time.Hour) }
	if w.rest(h); h.suspended() || w.inKCP.GetDeletionTimestamp() != nil {
		t.Error("it ends while it may be used")
	}
}

func TestADeletedCompoundInstanceWaitsForItsPart(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.rest(h)
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	result := w.rest(h)
	w.wantPhase("Deleting", "Ready", outcome.ReasonDeleting)
	if message := fixture.ConditionOf(t, w.inKCP, "Ready").Message; message != "waiting for Heap web to be removed" {
		t.Errorf("it says %q", message)
	}
	if h.part.GetDeletionTimestamp() == nil || result.RequeueAfter != recheck {
		t.Errorf("the part stays, or nobody looks again: %v", result)
	}
	h.err = errors.New("connection refused")
	if err := w.reconcile(); err == nil || w.inKCP == nil {
		t.Error("what kcp does not say is taken for gone")
	}
	h.err, h.part = nil, nil
	if err := w.reconcile(); err != nil || w.inKCP != nil {
		t.Errorf("it is still there: %v", err)
	}
}

func TestADeletedCompoundInstanceLeavesWhatIsSomebodyElses(t *testing.T) {
	w, h := newCompoundWorld(t)
	h.part = heap.NewObject()
	h.part.SetName("web")
	w.rest(h)
	w.wantPhase("Failed", "Applied", "NameTaken")
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	if err := w.reconcile(); err != nil || w.inKCP != nil || len(h.writes) > 0 {
		t.Errorf("it writes %v: %v", h.writes, err)
	}
}

func TestAnotherWriterOfThePartIsCorrectedWithoutAFight(t *testing.T) {
	w, h := newCompoundWorld(t)
	at := time.Now()
	w.now = func() time.Time { return at }
	w.rest(h)
	takeAway := map[string]any{"spec": map[string]any{"components": []any{}}}
	h.changed(takeAway)
	w.rest(h)
	if components, _, _ := unstructured.NestedSlice(h.part.Object, "spec", "components"); len(components) != 1 {
		t.Errorf("it is not corrected: %v", components)
	}
	h.changed(takeAway)
	at = at.Add(correctAgain / 4)
	if result := w.rest(h); result.RequeueAfter != correctAgain*3/4 {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Pending", "Applied", "ApplyFailed")
	w.changeSpec("suspended", true) // what its tenant says counts at once
	if w.rest(h); !h.suspended() {
		t.Error("the tenant's change waits")
	}
	h.changed(takeAway)
	at = at.Add(correctAgain)
	w.rest(h)
	if components, _, _ := unstructured.NestedSlice(h.part.Object, "spec", "components"); len(components) != 1 {
		t.Errorf("it is never corrected again: %v", components)
	}
}

func TestACompoundInstanceTellsThatItsPartsAreNotOffered(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.settings.Compound.Part, w.parts = export.Kind{}, nil
	if result := w.rest(h); result.RequeueAfter != 0 {
		t.Errorf("it asks again in %v; a change of the Template wakes it", result.RequeueAfter)
	}
	w.wantPhase("Pending", "Applied", "ApplyFailed")
	if message := fixture.ConditionOf(t, w.inKCP, "Applied").Message; !strings.Contains(message, "ask the operator to apply the Template heap") {
		t.Errorf("it says %q", message)
	}
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	if err := w.reconcile(); err != nil || w.inKCP != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
}

func TestAnErrorThatMendsItselfLeavesTheStatusOfACompoundInstance(t *testing.T) {
	away := errors.New("connection refused")
	w, h := newCompoundWorld(t)
	h.err = away
	if err := w.reconcile(); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	w.wantPhase("Pending", "Applied", "ApplyFailed") // something has to be told
	h.err = nil
	w.rest(h)
	h.says("Ready", "True")
	w.rest(h)
	h.err, w.patches = away, nil
	if err := w.reconcile(); !errors.Is(err, away) || len(w.patches) > 0 {
		t.Errorf("error %v, writes %v", err, w.patches)
	}
	h.err, h.refuse = nil, apierrors.NewConflict(heap.GVR().GroupResource(), "web", nil)
	w.changeSpec("suspended", true)
	result, err := w.reconciler().Reconcile(t.Context(), testRequest)
	if err != nil || result.RequeueAfter != changedAgain || len(w.patches) > 0 {
		t.Errorf("%v, %v, writes %v", result, err, w.patches)
	}
	h.refuse = apierrors.NewForbidden(heap.GVR().GroupResource(), "web", errors.New("a policy of the workspace says no"))
	if err := w.reconcile(); err == nil {
		t.Error("it is not tried again")
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Applied"); got.Reason != "ApplyFailed" || !strings.Contains(got.Message, "a policy of the workspace says no") {
		t.Errorf("%+v", got)
	}
}

// A compound instance that is older than one that waits would keep it from its place for ever.
func TestAnInstanceThatNeverHasAPlaceKeepsNobodyFromOne(t *testing.T) {
	c := newCrowd(1, 100)
	older, younger := c.create("a", "w", "older", 30), c.create("b", "w", "younger", 20)
	if got := c.try(younger); got != outcome.ReasonWorkspaceLimit {
		t.Fatalf("the younger one is told %q", got)
	}
	c.woken = nil
	c.never(older.owner)
	if !slices.Equal(c.woken, []string{"younger"}) {
		t.Errorf("woken: %v", c.woken)
	}
	if got := c.try(younger); got != "" {
		t.Errorf("the younger one is told %q", got)
	}
	c.woken = nil
	if c.never(older.owner); len(c.woken) > 0 {
		t.Errorf("woken once more: %v", c.woken)
	}
	w, h := newCompoundWorld(t)
	w.capacity.follow(fixture.Thing.Template, func(string) []candidate {
		return []candidate{{owner: fixture.Owner, req: testRequest, wake: func() {}}}
	})
	w.rest(h)
	if !w.capacity.apart[fixture.Owner] || w.capacity.holds(fixture.Owner) {
		t.Error("a compound instance may take a place")
	}
}

// The watch shows no change of a status: a compound instance would never hear that its part is ready.
func TestACompoundInstanceIsToldOfItsPartsStatusAndEnd(t *testing.T) {
	w := newWorld(t)
	w.settle()
	if w.partsTold == 0 {
		t.Error("of the status nobody was told")
	}
	w.partsTold = 0
	w.settle()
	if w.partsTold != 0 {
		t.Errorf("at rest somebody was told %d times", w.partsTold)
	}
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	for i := 0; i < 5 && w.inKCP != nil; i++ {
		w.partsTold = 0
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if w.inKCP != nil || w.partsTold == 0 {
		t.Errorf("gone: %v, told %d times", w.inKCP == nil, w.partsTold)
	}
}
