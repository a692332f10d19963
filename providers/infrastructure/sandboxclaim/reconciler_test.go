// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer/offertest"
)

// store holds the objects of one resource of a workspace, as kcp does: with versions, preconditions and finalizers.
type store struct {
	mu       sync.Mutex // Sandboxes are created and removed side by side
	resource schema.GroupResource
	objects  map[string]*unstructured.Unstructured
	version  int
	writes   []string // verb and name, in order
	// keep is the finalizer that objects get when they are made.
	keep string
	// meanwhile happens once, before the next removal.
	meanwhile func()
}

func newStore(resource string) *store {
	return &store{resource: schema.GroupResource{Group: "sandbar.dev", Resource: resource}, objects: map[string]*unstructured.Unstructured{}}
}

func (s *store) put(obj *unstructured.Unstructured) {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[obj.GetName()] = obj
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		delete(s.objects, obj.GetName())
	}
}

func (s *store) Live(_ context.Context, key export.Key) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key.Name] == nil {
		return nil, apierrors.NewNotFound(s.resource, key.Name)
	}
	return s.objects[key.Name].DeepCopy(), nil
}

func (s *store) List(_ context.Context, _, _, selector string) (all []unstructured.Unstructured, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, value, _ := strings.Cut(selector, "=")
	for _, obj := range s.objects {
		if obj.GetLabels()[name] == value {
			all = append(all, *obj.DeepCopy())
		}
	}
	return all, nil
}

func (s *store) Create(_ context.Context, key export.Key, obj *unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key.Name] != nil {
		return apierrors.NewAlreadyExists(s.resource, key.Name)
	}
	s.writes = append(s.writes, "create "+key.Name)
	obj = obj.DeepCopy()
	obj.SetUID(types.UID(fmt.Sprint("uid-", key.Name, "-", s.version)))
	if s.keep != "" {
		obj.SetFinalizers([]string{s.keep})
	}
	s.put(obj)
	return nil
}

func (s *store) Patch(_ context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[key.Name]
	if obj == nil {
		return nil, apierrors.NewNotFound(s.resource, key.Name)
	}
	s.writes = append(s.writes, "patch "+strings.Join(append([]string{key.Name}, subresources...), "/"))
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	if version, found, _ := unstructured.NestedString(patch, "metadata", "resourceVersion"); found && version != obj.GetResourceVersion() {
		return nil, apierrors.NewConflict(s.resource, key.Name, nil)
	}
	before, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := json.Unmarshal(after, changed); err != nil {
		return nil, err
	}
	s.put(changed)
	return changed.DeepCopy(), nil
}

func (s *store) Remove(_ context.Context, key export.Key, read *unstructured.Unstructured) error {
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[key.Name]
	switch {
	case obj == nil:
		return apierrors.NewNotFound(s.resource, key.Name)
	case obj.GetUID() != read.GetUID(), obj.GetResourceVersion() != read.GetResourceVersion():
		return apierrors.NewConflict(s.resource, key.Name, nil)
	}
	s.writes = append(s.writes, "delete "+key.Name)
	obj = obj.DeepCopy()
	obj.SetDeletionTimestamp(new(metav1.Now()))
	s.put(obj)
	return nil
}

// fleet are the Sandboxes of a workspace.
type fleet struct {
	*store
	none bool // the provider does not offer the kind
}

func (f fleet) New() (*unstructured.Unstructured, string, error) {
	if f.none {
		return nil, "", instance.ErrNoKind
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox"}}, "template", nil
}

func (f fleet) List(ctx context.Context, cluster, namespace, selector string) ([]unstructured.Unstructured, error) {
	if f.none {
		return nil, instance.ErrNoKind
	}
	return f.store.List(ctx, cluster, namespace, selector)
}

type world struct {
	t      *testing.T
	claims *store
	boxes  fleet
	now    time.Time
	r      *reconciler
	woken  []string // claims
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func keyFor(name string) export.Key {
	return export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

// newWorld is a workspace with one claim, whose spec has these fields in addition to the defaults.
func newWorld(t *testing.T, replicas int64, fields map[string]any) *world {
	t.Helper()
	w := &world{t: t, claims: newStore("sandboxclaims"), boxes: fleet{store: newStore("sandboxes")}, now: began}
	w.boxes.keep = "sandbar.dev/placement"
	spec := map[string]any{
		"templateRef": map[string]any{"kind": "SandboxTemplate", "name": "own"}, "replicas": replicas, "prewarm": "Prefer",
		"claimTimeout": "1m", "onDelete": "Delete", "ttlAfterFinished": "1h",
	}
	maps.Copy(spec, fields)
	claim := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxClaim", "spec": spec}}
	claim.SetName("batch")
	claim.SetUID("uid-batch")
	claim.SetGeneration(1)
	claim.SetCreationTimestamp(metav1.NewTime(began))
	w.claims.put(claim)
	w.start()
	return w
}

// start is the start of a process.
func (w *world) start() {
	w.r = newReconciler(w.claims, w.boxes, func(claim export.Key) {
		if !slices.Contains(w.woken, claim.Name) {
			w.woken = append(w.woken, claim.Name)
		}
	})
	w.r.now = func() time.Time { return w.now }
}

// look looks at the claim until it writes nothing more, and returns when it is looked at again.
func (w *world) look() time.Duration {
	w.t.Helper()
	for range 10 {
		before := len(w.claims.writes) + len(w.boxes.writes)
		result, err := w.r.Reconcile(w.t.Context(), keyFor("batch"))
		if err != nil {
			w.t.Fatal(err)
		}
		if len(w.claims.writes)+len(w.boxes.writes) == before {
			return result.RequeueAfter
		}
	}
	w.t.Fatalf("it does not come to rest: %v, %v", w.claims.writes, w.boxes.writes)
	return 0
}

// is has a Sandbox report a phase, and whether it is Ready.
func (w *world) is(name string, phase sandbarv1alpha1.InstancePhase) {
	w.t.Helper()
	status := map[string]any{"phase": string(phase), "start": map[string]any{"type": "Warm"}, "dataPlane": map[string]any{"url": "https://x/" + name}}
	ready := "False"
	if phase == sandbarv1alpha1.InstanceReady {
		ready = "True"
	}
	status["conditions"] = []any{map[string]any{"type": "Ready", "status": ready, "reason": "R", "message": name + " says why", "lastTransitionTime": "2026-01-02T03:04:05Z"}}
	obj := w.boxes.objects[name].DeepCopy()
	obj.Object["status"] = status
	w.boxes.put(obj)
}

func (w *world) status() sandbarv1alpha1.SandboxClaimStatus { return w.statusOf("batch") }

func (w *world) statusOf(name string) (status sandbarv1alpha1.SandboxClaimStatus) {
	w.t.Helper()
	raw, err := json.Marshal(w.claims.objects[name].Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

func (w *world) boxNames() []string {
	var names []string
	for name, obj := range w.boxes.objects {
		if obj.GetDeletionTimestamp() == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) wantBoxes(what string, names ...string) {
	w.t.Helper()
	if diff := cmp.Diff(names, w.boxNames()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *world) want(phase sandbarv1alpha1.SandboxClaimPhase, conditions map[string]string) {
	w.t.Helper()
	status := w.status()
	if status.Phase != phase {
		w.t.Errorf("the phase is %s, want %s", status.Phase, phase)
	}
	for name, says := range conditions {
		c := meta.FindStatusCondition(status.Conditions, name)
		if c == nil || !strings.HasPrefix(string(c.Status)+" "+c.Reason+": "+c.Message, says) {
			w.t.Errorf("%s is %+v, want %s", name, c, says)
		}
	}
}

func TestAClaimIsBoundWhenAllItsSandboxesAreReady(t *testing.T) {
	w := newWorld(t, 3, map[string]any{"sandboxMetadata": map[string]any{
		"labels": map[string]any{"app": "x"}, "annotations": map[string]any{"note": "y"},
	}})
	if again := w.look(); again != time.Minute {
		t.Errorf("it is looked at again in %v", again)
	}
	w.wantBoxes("it makes them", "batch-0", "batch-1", "batch-2")
	w.want(sandbarv1alpha1.ClaimClaiming, map[string]string{"Claimed": "True", "Ready": "False NotReady: 0 of 3", "TimedOut": "False"})
	box := w.boxes.objects["batch-0"]
	if box.GetLabels()["app"] != "x" || box.GetAnnotations()["note"] != "y" || box.GetLabels()[placement.LabelClaim] != "batch" {
		t.Errorf("%v, %v", box.GetLabels(), box.GetAnnotations())
	}
	spec := box.Object["spec"].(map[string]any)
	if diff := cmp.Diff(map[string]any{
		"template": map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": "own"}}, "prewarm": "Prefer", "resize": "Require", "startTimeout": "1m",
	}, spec); diff != "" {
		t.Errorf("its spec (-want +got):\n%s", diff)
	}
	for _, name := range []string{"batch-0", "batch-1", "batch-2"} {
		w.is(name, sandbarv1alpha1.InstanceReady)
	}
	if again := w.look(); again != 0 {
		t.Errorf("it is looked at again in %v", again)
	}
	w.want(sandbarv1alpha1.ClaimBound, map[string]string{"Claimed": "True", "Ready": "True AllReady", "TimedOut": "False"})
	status := w.status()
	if status.ReadyReplicas != 3 || status.CompletionTime == nil || len(status.Sandboxes) != 3 ||
		status.Sandboxes[1] != (sandbarv1alpha1.SandboxClaimSandbox{Name: "batch-1", UID: string(w.boxes.objects["batch-1"].GetUID()), Start: "Warm", Ready: true, URL: "https://x/batch-1"}) {
		t.Errorf("%+v", status)
	}
	t.Run("and stays so when time passes and one is deleted", func(t *testing.T) {
		w.now = w.now.Add(24 * time.Hour)
		delete(w.boxes.objects, "batch-1")
		w.look()
		w.wantBoxes("none is made in its place", "batch-0", "batch-2")
		w.want(sandbarv1alpha1.ClaimBound, map[string]string{"Claimed": "False SandboxesGone", "Ready": "False NotReady: 2 of 3"})
	})
}

func TestTheSandboxesOfAClaimHaveItsVariables(t *testing.T) {
	env, from := []any{map[string]any{"name": "A", "value": "1"}}, []any{map[string]any{"secretRef": map[string]any{"name": "keys"}}}
	w := newWorld(t, 2, map[string]any{"env": env, "envFrom": from})
	w.look()
	for _, name := range []string{"batch-0", "batch-1"} {
		spec := w.boxes.objects[name].Object["spec"].(map[string]any)
		if !reflect.DeepEqual(spec["env"], env) || !reflect.DeepEqual(spec["envFrom"], from) {
			t.Errorf("%s has %v", name, spec)
		}
	}
}

func TestAClaimOfOneHasASandboxOfItsName(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.look()
	w.wantBoxes("one", "batch")
}

func TestAClaimThatIsLate(t *testing.T) {
	for name, test := range map[string]struct {
		fields map[string]any
		phase  sandbarv1alpha1.InstancePhase // of the second of two
		left   []string
		reason string
	}{
		"keeps those that are Ready":                     {nil, sandbarv1alpha1.InstanceMaterializing, []string{"batch-0"}, "ColdStartSlow"},
		"keeps none with allOrNothing":                   {map[string]any{"allOrNothing": true}, sandbarv1alpha1.InstanceMaterializing, nil, "ColdStartSlow"},
		"says that there is no room":                     {nil, sandbarv1alpha1.InstancePendingCapacity, []string{"batch-0"}, "QuotaExceeded"},
		"says that none was warm":                        {map[string]any{"prewarm": "Require"}, sandbarv1alpha1.InstancePending, []string{"batch-0"}, "NoWarmMember"},
		"says that one cannot start":                     {nil, sandbarv1alpha1.InstanceFailed, []string{"batch-0"}, "SandboxFailed"},
		"and gives its Sandboxes as long as it has said": {map[string]any{"claimTimeout": "1m"}, sandbarv1alpha1.InstanceMaterializing, []string{"batch-0"}, "ColdStartSlow"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, test.fields)
			w.look()
			w.is("batch-0", sandbarv1alpha1.InstanceReady)
			w.is("batch-1", test.phase)
			w.now = began.Add(time.Minute - time.Second)
			w.look()
			w.want(sandbarv1alpha1.ClaimClaiming, map[string]string{"TimedOut": "False"})
			w.now = began.Add(time.Minute)
			if again := w.look(); again != time.Hour {
				t.Errorf("it is looked at again in %v", again)
			}
			w.want(sandbarv1alpha1.ClaimFailed, map[string]string{"TimedOut": "True " + test.reason + ": 1 of 2 Sandboxes were Ready within spec.claimTimeout (1m); batch-1: batch-1 says why"})
			w.wantBoxes("what is left", test.left...)
			t.Run("makes no others", func(t *testing.T) {
				w.start()
				w.boxes.writes = nil
				w.look()
				if len(w.boxes.writes) > 0 {
					t.Errorf("%v", w.boxes.writes)
				}
			})
			t.Run("and goes by itself", func(t *testing.T) {
				w.now = w.now.Add(time.Hour)
				w.look()
				if w.claims.objects["batch"] != nil || len(w.boxNames()) > 0 {
					t.Errorf("%v and %v are left", w.claims.objects, w.boxNames())
				}
			})
		})
	}
}

func TestALateClaimSaysThatItsSandboxesCouldNotBeResized(t *testing.T) {
	for start, want := range map[string]string{sandbarv1alpha1.StartResizeInfeasible: "ResizeInfeasible", sandbarv1alpha1.StartSetEmpty: "QuotaExceeded"} {
		late := sandbox{status: sandbarv1alpha1.InstanceStatus{
			Phase: sandbarv1alpha1.InstancePendingCapacity, Start: &sandbarv1alpha1.InstanceStart{Type: sandbarv1alpha1.StartCold, Reason: start},
		}}
		if got := reasonOf(late); got != want {
			t.Errorf("one that started cold for %s: %s, want %s", start, got, want)
		}
	}
}

// It becomes Ready between the look and the deletion.
func TestASandboxThatIsReadyAtTheLastMomentIsKept(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.look()
	w.is("batch-0", sandbarv1alpha1.InstanceReady)
	w.now = began.Add(time.Minute)
	w.boxes.meanwhile = func() { w.is("batch-1", sandbarv1alpha1.InstanceReady) }
	w.look()
	w.wantBoxes("what is left", "batch-0", "batch-1")
}

func TestAClaimTakesNoSandboxThatIsNotItsOwn(t *testing.T) {
	w := newWorld(t, 2, nil)
	other := &unstructured.Unstructured{Object: map[string]any{}}
	other.SetName("batch-1")
	other.SetUID("others")
	other.SetLabels(map[string]string{placement.LabelClaim: "batch"}) // a tenant may write any label
	w.boxes.put(other)
	if again := w.look(); again != lookAgain {
		t.Errorf("it is looked at again in %v", again)
	}
	w.want(sandbarv1alpha1.ClaimClaiming, map[string]string{"Claimed": "False NameTaken: there is a Sandbox batch-1"})
	writes := len(w.claims.writes)
	w.look()
	if len(w.claims.writes) != writes {
		t.Errorf("it is written again and again: %v", w.claims.writes)
	}
	w.is("batch-0", sandbarv1alpha1.InstanceReady)
	w.now = began.Add(time.Minute)
	w.look()
	w.want(sandbarv1alpha1.ClaimFailed, map[string]string{"TimedOut": "True"})
	w.wantBoxes("what is left", "batch-0", "batch-1")
	w.deleteClaim()
	w.look()
	w.wantBoxes("the other's stays", "batch-1")
}

// A person who exports a Sandbox of a claim and creates another one of it copies the label and the UID too; and one with
// the right to create Sandboxes alone writes both to pass one off as the claim's.
func TestACopyOfASandboxOfAClaimIsNotTheClaims(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.look()
	clone := w.boxes.objects["batch-0"].DeepCopy()
	clone.SetName("clone")
	clone.SetUID("clones")
	clone.SetFinalizers(nil)
	w.boxes.put(clone)
	for _, name := range []string{"batch-0", "batch-1", "clone"} {
		w.is(name, sandbarv1alpha1.InstanceReady)
	}
	w.look()
	w.want(sandbarv1alpha1.ClaimBound, map[string]string{"Claimed": "True", "Ready": "True"})
	for _, s := range w.status().Sandboxes {
		if s.Name == "clone" {
			t.Errorf("the claim names it: %+v", w.status().Sandboxes)
		}
	}
	w.deleteClaim()
	w.look()
	w.wantBoxes("the copy stays", "clone")
}

func (w *world) deleteClaim() {
	obj := w.claims.objects["batch"].DeepCopy()
	obj.SetDeletionTimestamp(new(metav1.Now()))
	w.claims.put(obj)
}

func TestTheSandboxesOfAClaimThatIsDeleted(t *testing.T) {
	for onDelete, left := range map[string][]string{"Delete": nil, "Release": {"batch-0", "batch-1"}} {
		t.Run(onDelete, func(t *testing.T) {
			w := newWorld(t, 2, map[string]any{"onDelete": onDelete})
			w.look()
			w.deleteClaim()
			w.look()
			w.wantBoxes("what is left", left...)
			if w.claims.objects["batch"] != nil {
				t.Error("the claim is still there")
			}
			for _, name := range left {
				box := w.boxes.objects[name]
				if box.GetLabels()[placement.LabelClaim] != "" || box.GetAnnotations()[placement.AnnotationClaimUID] != "" {
					t.Errorf("%s says still that it is the claim's", name)
				}
			}
		})
	}
}

// Nothing is made before the claim's deletion would wait for it.
func TestTheFinalizerIsThereBeforeTheFirstSandbox(t *testing.T) {
	w := newWorld(t, 1, nil)
	if _, err := w.r.Reconcile(t.Context(), keyFor("batch")); err != nil {
		t.Fatal(err)
	}
	if len(w.boxes.writes) > 0 || !slices.Equal(w.claims.objects["batch"].GetFinalizers(), []string{finalizer}) {
		t.Errorf("%v, finalizers %v", w.boxes.writes, w.claims.objects["batch"].GetFinalizers())
	}
}

func TestAClaimWaitsForTheKind(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.boxes.none = true
	w.start()
	if again := w.look(); again != lookAgain {
		t.Errorf("it is looked at again in %v", again)
	}
}

// The Template Sandbox may be gone for good, or not be followed yet by a provider that has just started.
func TestAClaimIsDeletedWithoutTheKindOnlyIfItHasNoSandboxes(t *testing.T) {
	for _, has := range []bool{false, true} {
		w := newWorld(t, 1, nil)
		w.look()
		if !has { // its only one is being deleted
			w.boxes.objects["batch"].SetDeletionTimestamp(new(metav1.Now()))
			w.look()
		}
		w.boxes.none = true
		w.start()
		w.deleteClaim()
		if again := w.look(); (again == lookAgain) != has {
			t.Errorf("with Sandboxes: %v; it is looked at again in %v", has, again)
		}
		if (w.claims.objects["batch"] != nil) != has {
			t.Errorf("with Sandboxes: %v; the claim is %v", has, w.claims.objects["batch"])
		}
	}
}

func TestEveryFieldThatATenantWritesHasASentence(t *testing.T) {
	schema, err := Kind.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), offertest.Undescribed(t, schema)); diff != "" {
		t.Errorf("fields without a description:\n%s", diff)
	}
}

// The controllers may name any creator, so that a tenant must not be able to choose the one that they name.
func TestSandboxesOfAClaimHaveTheClaimsCreator(t *testing.T) {
	forged := map[string]any{"sandboxMetadata": map[string]any{"annotations": map[string]any{sandbarv1alpha1.AnnotationCreatedBy: "bob", "note": "y"}}}
	for name, tc := range map[string]struct {
		creator string
		spec    map[string]any
		want    string
	}{
		"of a claim with one":                    {"ann", map[string]any{}, "ann"},
		"of a claim without":                     {"", map[string]any{}, ""},
		"of a claim with one, and another's":     {"ann", forged, "ann"},
		"of a claim without one, with another's": {"", forged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, tc.spec)
			if tc.creator != "" {
				claim := w.claims.objects["batch"]
				claim.SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationCreatedBy: tc.creator})
			}
			w.look()
			annotations := w.boxes.objects["batch"].GetAnnotations()
			got, there := annotations[sandbarv1alpha1.AnnotationCreatedBy]
			if got != tc.want || there != (tc.want != "") {
				t.Errorf("annotations %v, want the creator %q", annotations, tc.want)
			}
		})
	}
}

// The attack: who may create Sandboxes writes label and UID of another's claim on one with workloads. It would count as a
// sandbox of the template that was claimed.
func TestASandboxWithWorkloadsIsNoClaims(t *testing.T) {
	w := newWorld(t, 1, nil)
	box := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "spec": map[string]any{"workloads": []any{}}}}
	box.SetName("batch")
	box.SetUID("theirs")
	box.SetLabels(map[string]string{placement.LabelClaim: "batch"})
	box.SetAnnotations(map[string]string{placement.AnnotationClaimUID: "uid-batch"})
	w.boxes.put(box)
	w.is("batch", sandbarv1alpha1.InstanceReady)
	w.look()
	status := w.status()
	if c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.ClaimClaimedCondition); status.ClaimedReplicas != 0 || c == nil || c.Reason != reasonNameTaken {
		t.Errorf("%d are claimed: %+v", status.ClaimedReplicas, c)
	}
	w.deleteClaim()
	w.look()
	if w.boxes.objects["batch"] == nil || w.boxes.objects["batch"].GetDeletionTimestamp() != nil {
		t.Error("it goes with the claim")
	}
}
