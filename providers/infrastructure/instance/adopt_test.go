// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

var testSet = members.Set{
	Key: export.Key{Cluster: fixture.Cluster, NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "warm"}}, UID: "set-1",
	Template: sandbarv1alpha1.PodTemplateRef{Kind: sandbarv1alpha1.RefSandboxTemplate, Name: "mine"},
}

// newWarmWorld is a world with a Sandbox of a SandboxTemplate and so many warm members of a set of that.
func newWarmWorld(t *testing.T, n int) *world {
	t.Helper()
	w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
	w.writeSource(fromOwn("mine"))
	w.inKCP.SetCreationTimestamp(metav1.NewTime(w.now().Truncate(time.Second)))
	w.configure(testSet)
	for range n {
		w.makeMember(testSet)
	}
	w.patches, w.writes = nil, nil
	return w
}

func providerIs(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return name, nil }
}

// configure says what a set wants, with the revision that its pod has.
func (w *world) configure(set members.Set) members.Set {
	w.t.Helper()
	w.offered = true
	var err error
	if set.Made, _, err = w.members.Revision(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	w.members.Configure(set)
	return set
}

// makeMember makes a member and has it come up.
func (w *world) makeMember(set members.Set) placement.ID {
	w.t.Helper()
	set = w.configure(set)
	before := w.memberNames()
	if err := w.members.Make(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	name := slices.DeleteFunc(w.memberNames(), func(name string) bool { return slices.Contains(before, name) })[0]
	w.lookAtMember(name)
	instance := fixture.Thing.NewObject()
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: name, Name: placement.BornInstance}, instance); err != nil {
		w.t.Fatal(err)
	}
	instance.Object["status"] = fixture.KroReady(instance.GetGeneration())
	pod := fixture.PodOf("sandbox-0", fixture.Running(time.Minute, true, 0))
	pod.Namespace, pod.Status.StartTime = name, new(metav1.Now())
	if err := errors.Join(w.runtime.Update(w.t.Context(), instance), w.runtime.Create(w.t.Context(), &pod)); err != nil {
		w.t.Fatal(err)
	}
	w.lookAtMember(name)
	ns, err := w.namespaceNamed(name)
	if member, ok := placement.MemberOf(ns); err != nil || !ok || member.State != placement.MemberWarm {
		w.t.Fatalf("the member is not warm: %v %v", ns, err)
	}
	w.members.Handler().OnAdd(ns, false)
	id, _ := placement.IDOf(ns)
	return id
}

// changePod changes the pod of a member.
func (w *world) changePod(namespace string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: "sandbox-0"}, pod); err != nil {
		w.t.Fatal(err)
	}
	change(pod)
	if err := w.runtime.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) lookAtMember(name string) {
	w.t.Helper()
	if _, err := w.members.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) namespaces() []corev1.Namespace {
	w.t.Helper()
	var list corev1.NamespaceList
	if err := w.runtime.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) memberNames() (names []string) {
	for _, ns := range w.namespaces() {
		if _, ok := placement.MemberOf(&ns); ok {
			names = append(names, ns.Name)
		}
	}
	return names
}

// ownedNames are the namespaces of the Sandbox's placements.
func (w *world) ownedNames() (names []string) {
	for _, ns := range w.namespaces() {
		if p, ok := placement.Of(&ns); ok && p.Owner == fixture.Owner {
			names = append(names, ns.Name)
		}
	}
	return names
}

func (w *world) startedAs() sandbarv1alpha1.InstanceStart {
	w.t.Helper()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil || status.Start == nil {
		w.t.Fatalf("its status does not say how it started: %v", err)
	}
	return *status.Start
}

func (w *world) mustReconcile() {
	w.t.Helper()
	if err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
}

// One write to the placement and one of the status: that is all until a Sandbox is Ready.
func TestASandboxThatIsBornWarmCostsTwoWrites(t *testing.T) {
	w := newWarmWorld(t, 2)
	members := w.memberNames()
	w.mustReconcile()
	if !slices.Equal(w.patches, []string{"status"}) || !slices.Equal(w.writes, []string{"patch Namespace"}) {
		t.Errorf("in kcp %v, on the runtime cluster %v", w.patches, w.writes)
	}
	owned := w.ownedNames()
	if len(owned) != 1 || !slices.Contains(members, owned[0]) || len(w.memberNames()) != 1 {
		t.Fatalf("it has %v, of %v", owned, members)
	}
	ready := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition)
	start := w.startedAs()
	if ready.Status != metav1.ConditionTrue || start.Type != sandbarv1alpha1.StartWarm || start.Set == nil || start.Set.Name != "warm" || start.Times.Placed == nil || start.Times.Ready == nil {
		t.Errorf("Ready is %s, it started as %+v", ready.Status, start)
	}
	if claims := w.members.TakeClaims(testSet.UID); claims.Count != 1 {
		t.Errorf("the set counts %d", claims.Count)
	}

	w.patches, w.writes = nil, nil
	w.mustReconcile()
	if !slices.Equal(w.patches, []string{"main"}) || len(w.writes) > 0 {
		t.Errorf("afterwards, for its finalizer: in kcp %v, on the runtime cluster %v", w.patches, w.writes)
	}
	w.patches = nil
	w.mustReconcile()
	if len(w.patches) > 0 || len(w.writes) > 0 {
		t.Errorf("at rest: in kcp %v, on the runtime cluster %v", w.patches, w.writes)
	}
	if again := w.startedAs(); !again.Times.Placed.Equal(start.Times.Placed) || again.Set.Name != "warm" {
		t.Errorf("it says now that it started as %+v", again)
	}
}

// A member is adopted for what it is: the very pod that would be made.
func TestASandboxTakesAMemberWithItsOwnPodAlone(t *testing.T) {
	other := func(change func(*members.Set)) func(*world) {
		return func(w *world) {
			set := testSet
			change(&set)
			w.makeMember(set)
		}
	}
	for name, test := range map[string]struct {
		change func(*world)
		reason string // empty: warm
	}{
		"a warm one": {change: func(w *world) { w.makeMember(testSet) }},
		"of a set of another template": {reason: sandbarv1alpha1.StartNoSet, change: func(w *world) {
			w.members.Forget(testSet.Key)
			w.templates["other"] = ownTemplate("other", "uid-2", "of-other")
			other(func(s *members.Set) { s.Template.Name = "other" })(w)
		}},
		"of a template that was made again": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			w.templates["mine"] = ownTemplate("mine", "uid-2", "of-mine")
			w.configure(testSet)
		}},
		"in another namespace": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			w.relabel(w.memberNames()[0], nil, map[string]any{placement.AnnotationSetNamespace: "team-b"})
		}},
		"of another provider": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			w.relabel(w.memberNames()[0], nil, map[string]any{placement.AnnotationProvider: "another"})
		}},
		"that leaves": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			w.relabel(w.memberNames()[0], map[string]any{placement.LabelMemberState: placement.MemberLeaving}, nil)
		}},
		"that is being made": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			w.relabel(w.memberNames()[0], map[string]any{placement.LabelMemberState: placement.MemberMaking}, nil)
		}},
		"whose pod is not ready now": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			pod := &corev1.Pod{}
			if err := w.runtime.Get(context.Background(), types.NamespacedName{Namespace: w.memberNames()[0], Name: "sandbox-0"}, pod); err != nil {
				w.t.Fatal(err)
			}
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			if err := w.runtime.Status().Update(context.Background(), pod); err != nil {
				w.t.Fatal(err)
			}
		}},
		"whose pod is started again and again, and ready for a moment": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			name := w.memberNames()[0]
			w.changePod(name, func(pod *corev1.Pod) {
				pod.Status = fixture.PodOf("sandbox-0", fixture.WaitingFor("CrashLoopBackOff", "back-off")).Status
				pod.Status.ContainerStatuses[0].RestartCount = 5
			})
			w.lookAtMember(name)
			w.changePod(name, func(pod *corev1.Pod) {
				pod.Status = fixture.PodOf("sandbox-0", fixture.Running(time.Second, true, 5)).Status
			})
		}},
		"that is too old": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			set := testSet
			set.MaxAge = time.Hour
			w.makeMember(set)
			w.ahead = 2 * time.Hour
		}},
		"that is almost too old": {change: func(w *world) {
			set := testSet
			set.MaxAge = time.Hour
			w.makeMember(set)
			w.ahead = 50 * time.Minute
		}},
		"whose pod is about to be evicted": {reason: sandbarv1alpha1.StartSetEmpty, change: func(w *world) {
			w.makeMember(testSet)
			pod := &corev1.Pod{}
			if err := w.runtime.Get(context.Background(), types.NamespacedName{Namespace: w.memberNames()[0], Name: "sandbox-0"}, pod); err != nil {
				w.t.Fatal(err)
			}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
			if err := w.runtime.Status().Update(context.Background(), pod); err != nil {
				w.t.Fatal(err)
			}
		}},
		"by a Sandbox with its own pod": {reason: sandbarv1alpha1.StartOwnPodTemplate, change: func(w *world) {
			w.makeMember(testSet)
			w.writeSource(map[string]any{"podTemplate": podTemplateOf("of-mine")})
		}},
		"by one with a patch": {reason: sandbarv1alpha1.StartPatchDiffers, change: func(w *world) {
			w.makeMember(testSet)
			source := fromOwn("mine")
			source["patch"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "workingDir": "/x"}}}}
			w.writeSource(source)
		}},
		"by one that wants none": {reason: sandbarv1alpha1.StartPrewarmNone, change: func(w *world) {
			w.makeMember(testSet)
			w.inKCP.Object["spec"].(map[string]any)[contract.PrewarmField] = contract.PrewarmNone
		}},
		"by one that is to be suspended": {reason: sandbarv1alpha1.StartSuspended, change: func(w *world) {
			w.makeMember(testSet)
			w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			test.change(w)
			members := w.memberNames()
			w.mustReconcile()
			owned := w.ownedNames()
			if len(owned) != 1 {
				t.Fatalf("it has %v", owned)
			}
			start := w.startedAs()
			if warm := slices.Contains(members, owned[0]); warm != (test.reason == "") || start.Reason != test.reason {
				t.Errorf("warm: %v, it started as %+v", warm, start)
			}
			if cold := fixture.Owner.Cold().Namespace(); test.reason != "" && owned[0] != cold {
				t.Errorf("it has %s, want %s", owned[0], cold)
			}
		})
	}
}

func (w *world) relabel(name string, labels, annotations map[string]any) {
	w.t.Helper()
	ns, err := w.namespaceNamed(name)
	if err != nil {
		w.t.Fatal(err)
	}
	for key, value := range labels {
		ns.Labels[key], _ = value.(string)
	}
	for key, value := range annotations {
		ns.Annotations[key], _ = value.(string)
	}
	if err := w.runtime.Update(context.Background(), ns); err != nil {
		w.t.Fatal(err)
	}
}

// kcp may be away at the very moment at which an instance begins.
func TestAStartIsToldAlsoWhenTheFirstStatusWasLost(t *testing.T) {
	for name, test := range map[string]struct {
		members    int
		kind, says string
	}{
		"warm": {2, sandbarv1alpha1.StartWarm, ""},
		"cold": {0, sandbarv1alpha1.StartCold, sandbarv1alpha1.StartUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, test.members)
			w.patchErr = apierrors.NewServiceUnavailable("away")
			if err := w.reconcile(); err == nil {
				t.Fatal("the reconcile is not tried again")
			}
			w.patchErr = nil
			w.mustReconcile()
			start := w.startedAs()
			if start.Type != test.kind || start.Reason != test.says || start.Times.Requested == nil || (start.Type == sandbarv1alpha1.StartWarm) != (start.Set != nil) {
				t.Errorf("it started as %+v", start)
			}
			w.mustReconcile()
			if again := w.startedAs(); again.Reason != start.Reason || again.Type != start.Type {
				t.Errorf("then it says %+v", again)
			}
		})
	}
}

// What was adopted is found, however little of it the caches show, and nothing is made beside it.
func TestAnAdoptionIsNeverForgotten(t *testing.T) {
	t.Run("the cache does not show it yet", func(t *testing.T) {
		w := newWarmWorld(t, 2)
		stale := w.staleNamespaces()
		w.mustReconcile()
		w.stale = stale
		for range 3 {
			w.mustReconcile()
		}
		w.hasOne(t)
	})
	t.Run("nor does this process know of it", func(t *testing.T) {
		w := newWarmWorld(t, 2)
		stale := w.staleNamespaces()
		w.mustReconcile()
		w.stale, w.members, w.capacity = stale, w.newMembers(), newCapacity()
		w.configure(testSet)
		for range 3 {
			w.mustReconcile()
		}
		w.hasOne(t)
		t.Run("and its owner goes", func(t *testing.T) {
			w.deleteInKCP()
			for range 5 {
				w.mustReconcile()
			}
			if left := w.ownedNames(); len(left) > 0 || w.inKCP != nil {
				t.Errorf("%v is left, and %v", left, w.inKCP)
			}
		})
	})
	t.Run("nobody knows whether it was written", func(t *testing.T) {
		w := newWarmWorld(t, 2)
		stale := w.staleNamespaces()
		w.afterWrites = func(verb string, obj runtime.Object) error {
			if _, ok := obj.(*corev1.Namespace); ok && verb == "patch" {
				return apierrors.NewTimeoutError("no answer", 0)
			}
			return nil
		}
		if err := w.reconcile(); err == nil {
			t.Fatal("the reconcile is not tried again")
		}
		w.afterWrites, w.stale = nil, stale
		w.mustReconcile()
		w.hasOne(t)
	})
	t.Run("it failed", func(t *testing.T) {
		w := newWarmWorld(t, 1)
		w.failWrites = func(verb string, obj runtime.Object) error {
			if _, ok := obj.(*corev1.Namespace); ok && verb == "patch" {
				return apierrors.NewTimeoutError("no answer", 0)
			}
			return nil
		}
		if err := w.reconcile(); err == nil {
			t.Fatal("the reconcile is not tried again")
		}
		w.failWrites = nil
		w.mustReconcile()
		w.hasOne(t)
		if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
	})
	t.Run("the status could not be written", func(t *testing.T) {
		w := newWarmWorld(t, 1)
		w.meanwhile = func() { w.inKCP.SetResourceVersion("77") }
		_ = w.reconcile()
		if w.startedAsOrNone() != nil {
			t.Fatal("the status was written")
		}
		w.settle()
		w.hasOne(t)
	})
}

func (w *world) startedAsOrNone() *sandbarv1alpha1.InstanceStart {
	status, _ := outcome.ReadStatus(w.inKCP)
	return status.Start
}

// hasOne checks that the Sandbox has one placement, which was a member's.
func (w *world) hasOne(t *testing.T) {
	t.Helper()
	owned := w.ownedNames()
	if len(owned) != 1 || owned[0] == fixture.Owner.Cold().Namespace() {
		t.Errorf("it has %v", owned)
	}
	if _, err := w.namespaceNamed(fixture.Owner.Cold().Namespace()); !apierrors.IsNotFound(err) {
		t.Errorf("another one was made: %v", err)
	}
}

// staleNamespaces is a cache that shows the namespaces as they are now, for good, but for some that it has not heard of.
func (w *world) staleNamespaces(unheard ...string) client.Reader {
	w.t.Helper()
	var objects []client.Object
	for _, ns := range w.namespaces() {
		if !slices.Contains(unheard, ns.Name) {
			objects = append(objects, &ns)
		}
	}
	return fake.NewClientBuilder().WithScheme(w.runtime.Scheme()).WithObjects(objects...).
		WithIndex(&corev1.Namespace{}, ownerIndex, indexOwner).WithIndex(&corev1.Namespace{}, members.Index, members.Indexed).Build()
}

// Two want one member, or its set removes it: one of them has it.
func TestAMemberIsAdoptedOrRemovedAndNeverBoth(t *testing.T) {
	w := newWarmWorld(t, 1)
	all, err := w.members.Of(t.Context(), testSet.Key)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v %v", all, err)
	}
	t.Run("it is adopted before it is removed", func(t *testing.T) {
		w.mustReconcile()
		if err := w.members.Remove(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		w.hasOne(t)
	})
	t.Run("it is removed before it is adopted", func(t *testing.T) {
		w := newWarmWorld(t, 1)
		all, err := w.members.Of(t.Context(), testSet.Key)
		if err != nil {
			t.Fatal(err)
		}
		w.meanwhile = func() { // after the object was read
			if err := w.members.Remove(t.Context(), all[0]); err != nil {
				t.Fatal(err)
			}
		}
		stale := w.staleNamespaces()
		w.stale = stale
		w.mustReconcile()
		if owned := w.ownedNames(); len(owned) != 1 || owned[0] != fixture.Owner.Cold().Namespace() {
			t.Errorf("it has %v", owned)
		}
	})
	t.Run("another has it", func(t *testing.T) {
		w := newWarmWorld(t, 1)
		stale := w.staleNamespaces()
		ns := &w.namespaces()[0]
		another := placement.Placed{Owner: placement.Owner{Cluster: fixture.Cluster, UID: "another"}}
		another.ID, _ = placement.IDOf(ns)
		ns.Labels = another.NamespaceLabels(fixture.Thing.Template)
		ns.Annotations[placement.AnnotationInstanceName] = "another"
		if err := w.runtime.Update(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		w.stale = stale
		w.mustReconcile()
		if owned := w.ownedNames(); len(owned) != 1 || owned[0] != fixture.Owner.Cold().Namespace() {
			t.Errorf("it has %v", owned)
		}
		if p, ok := placement.Of(&w.namespaces()[0]); ok && p.ID == another.ID && p.Owner != another.Owner {
			t.Error("it was taken from another")
		}
	})
}

// What two processes gave an owner at once comes down to the first of them.
func TestOfTwoPlacementsOfOneOwnerTheFirstStays(t *testing.T) {
	w := newWarmWorld(t, 2)
	members := w.memberNames()
	for i, name := range members {
		w.give(name, fixture.Now.Add(-time.Duration(i)*time.Millisecond))
	}
	t.Run("that its status tells of", func(t *testing.T) {
		told := &sandbarv1alpha1.InstanceStart{Type: sandbarv1alpha1.StartWarm}
		told.Times.Placed = &metav1.MicroTime{Time: fixture.Now}
		if own := chosen(fixture.Owner, w.namespaces(), told); own == nil || own.Name != members[0] {
			t.Errorf("it is %v, want %s", own, members[0])
		}
	})
	w.mustReconcile()
	if left := w.ownedNames(); len(left) != 2 {
		t.Errorf("before its status tells which one it has, %v is left of %v", left, members)
	}
	w.mustReconcile()
	if left := w.ownedNames(); len(left) != 1 || left[0] != members[1] {
		t.Errorf("%v is left of %v, of which the second was adopted first", left, members)
	}
}

// A place that a set has filled is the Sandbox's that takes it, although the workspace has no other.
func TestAnAdoptionNeedsNoPlaceOfItsOwn(t *testing.T) {
	w := newWarmWorld(t, 1)
	w.settings.Infrastructure.Limits = &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{InstancesPerWorkspace: new(int32(1))}}
	w.capacity.seen(&w.namespaces()[0])
	err := w.members.Make(t.Context(), w.configure(testSet))
	var full *outcome.FullError
	if !errors.As(err, &full) || full.Reason != outcome.ReasonWorkspaceLimit {
		t.Fatalf("a second member: %v", err)
	}
	before := w.namespaces()[0]
	w.mustReconcile()
	w.hasOne(t)
	if n := len(w.capacity.placed[fixture.Cluster]); n != 1 || w.capacity.total != 1 {
		t.Errorf("%d are counted, %d in all", n, w.capacity.total)
	}
	was, _ := countedPlacement(&before)
	w.capacity.changed(was, &w.namespaces()[0]) // and the cache's word changes nothing
	if n := len(w.capacity.placed[fixture.Cluster]); n != 1 || w.capacity.total != 1 {
		t.Errorf("%d are counted, %d in all", n, w.capacity.total)
	}
	w.mustReconcile()
	if ready := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition); ready.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", ready)
	}
}

// A cache that is behind must not make a set make, or remove, one in the place of another.
func TestMembersCountBeforeTheCacheShowsThem(t *testing.T) {
	w := newWarmWorld(t, 1)
	stale := w.staleNamespaces()
	set := w.configure(testSet)
	if err := w.members.Make(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.membersRead.Client = interceptor.NewClient(w.runtime.(client.WithWatch), staleFuncs(stale))
	all, err := w.members.Of(t.Context(), set.Key)
	if err != nil || len(all) != 2 {
		t.Fatalf("the cache is behind, and there are %d, %v", len(all), err)
	}
	for _, m := range all {
		if err := w.members.Remove(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	all, err = w.members.Of(t.Context(), set.Key)
	leaving := slices.ContainsFunc(all, func(m members.Member) bool { return m.State == placement.MemberLeaving })
	if err != nil || !leaving {
		t.Errorf("the removed one counts still: %v, %v", all, err)
	}
}

// A member that goes before the cache has shown it leaves nothing behind in memory.
func TestNothingIsRememberedOfAMemberThatTheCacheNeverShows(t *testing.T) {
	t.Run("neither its place", func(t *testing.T) {
		w := newWarmWorld(t, 0)
		if err := w.members.Make(t.Context(), w.configure(testSet)); err != nil {
			t.Fatal(err)
		}
		name := w.memberNames()[0]
		if err := w.runtime.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		w.ahead = 2 * time.Minute
		if all, err := w.members.Of(t.Context(), testSet.Key); err != nil || len(all) > 0 {
			t.Errorf("there are %d, %v", len(all), err)
		}
		if left := len(w.capacity.reserved[fixture.Cluster]); left > 0 {
			t.Errorf("%d places are kept for it", left)
		}
	})
	t.Run("nor its adoption", func(t *testing.T) {
		w := newWarmWorld(t, 1)
		before := w.namespaces()[0]
		w.mustReconcile()
		if _, ok := w.members.Adopted(fixture.Owner); !ok {
			t.Fatal("the adoption is not remembered before the cache shows it")
		}
		w.members.Handler().OnDelete(&before)
		if p, ok := w.members.Adopted(fixture.Owner); ok {
			t.Errorf("%v is remembered", p)
		}
	})
}

func staleFuncs(stale client.Reader) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Namespace); ok {
				return stale.Get(ctx, key, obj, opts...)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.NamespaceList); ok {
				return stale.List(ctx, list, opts...)
			}
			return c.List(ctx, list, opts...)
		},
	}
}

// Two providers may share a runtime cluster against all advice: neither touches the other's members.
func TestAnotherProvidersMembersAreNotASets(t *testing.T) {
	w := newWarmWorld(t, 1)
	w.relabel(w.memberNames()[0], nil, map[string]any{placement.AnnotationProvider: "another"})
	if all, err := w.members.Of(t.Context(), testSet.Key); err != nil || len(all) != 0 {
		t.Errorf("the set has %v, %v", all, err)
	}
}
