// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// newRequiringWorld is a warm world whose Sandbox starts with a member or not at all.
func newRequiringWorld(t *testing.T, members int) *world {
	t.Helper()
	w := newWarmWorld(t, members)
	w.prewarm(contract.PrewarmRequire)
	return w
}

func (w *world) prewarm(value string) {
	w.inKCP.Object["spec"].(map[string]any)[contract.PrewarmField] = value
}

// look reconciles the Sandbox once.
func (w *world) look() reconcile.Result {
	w.t.Helper()
	result, err := w.reconciler().Reconcile(w.t.Context(), testRequest)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// wantUnstarted checks what the Sandbox says that it waits for, and that nothing is made for it.
func (w *world) wantUnstarted(t *testing.T, reason string, phase sandbarv1alpha1.InstancePhase, words ...string) {
	t.Helper()
	for _, name := range []string{sandbarv1alpha1.InstancePlaced, sandbarv1alpha1.InstanceReadyCondition} {
		c := fixture.ConditionOf(t, w.inKCP, name)
		if c.Status != metav1.ConditionFalse || c.Reason != reason {
			t.Errorf("%s is %s %s, want %s", name, c.Status, c.Reason, reason)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				t.Errorf("%s says %q, and lacks %q", name, c.Message, word)
			}
		}
	}
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil || status.Phase != phase {
		t.Errorf("the phase is %s, want %s; %v", status.Phase, phase, err)
	}
	if owned := w.ownedNames(); len(owned) > 0 || len(w.inKCP.GetFinalizers()) > 0 {
		t.Errorf("it has %v, and the finalizers %v", owned, w.inKCP.GetFinalizers())
	}
}

func TestASandboxThatRequiresAMemberWaitsForOne(t *testing.T) {
	w := newRequiringWorld(t, 0)
	if again := w.look().RequeueAfter; again <= 4*time.Minute || again > contract.StartTimeoutDefault {
		t.Errorf("it is looked at again in %v", again)
	}
	w.wantUnstarted(t, outcome.ReasonWaitsForMember, sandbarv1alpha1.InstancePending, "takes the next one")
	w.patches, w.writes = nil, nil
	w.look()
	if len(w.patches)+len(w.writes) > 0 {
		t.Errorf("while it waits: %v, %v", w.patches, w.writes)
	}
	w.makeMember(testSet)
	w.look()
	w.hasOne(t)
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm {
		t.Errorf("it started as %+v", start)
	}
	if n := w.members.Waiting(); n > 0 {
		t.Errorf("%d wait still", n)
	}
}

// The member comes up between the look for one and the wait: nothing else would wake the Sandbox.
func TestAMemberThatComesUpWakesTheSandboxThatWaitsForIt(t *testing.T) {
	w := newRequiringWorld(t, 0)
	r, woken := w.reconciler(), 0
	r.wake = func(req request) {
		if req != testRequest {
			t.Errorf("%v is woken", req)
		}
		woken++
	}
	if _, err := r.Reconcile(t.Context(), testRequest); err != nil {
		t.Fatal(err)
	}
	w.makeMember(testSet) // and tells of its namespace
	if woken == 0 {
		t.Error("nobody woke it")
	}
	woken = 0
	w.lookAtMember(w.memberNames()[0])
	if woken != 0 {
		t.Errorf("a look at a member that has not changed wakes it %d times", woken)
	}
}

func TestASandboxThatRequiresAMemberTakesNoneWhenItsTimeIsOver(t *testing.T) {
	for said, timeout := range map[string]time.Duration{"": contract.StartTimeoutDefault, "2s": 2 * time.Second} {
		w := newRequiringWorld(t, 0)
		if said != "" {
			w.inKCP.Object["spec"].(map[string]any)[contract.StartTimeoutField] = said
		}
		w.look()
		w.makeMember(testSet)
		w.now = func() time.Time { return w.inKCP.GetCreationTimestamp().Add(timeout) }
		if again := w.look().RequeueAfter; again != 0 {
			t.Errorf("startTimeout %q: it is looked at again in %v", said, again)
		}
		w.wantUnstarted(t, outcome.ReasonStartTimedOut, sandbarv1alpha1.InstanceFailed, "spec.startTimeout", "create it again")
		if len(w.memberNames()) != 1 || w.members.Waiting() > 0 {
			t.Errorf("startTimeout %q: the member is taken, or it waits still", said)
		}
		t.Run("and starts without one when that is allowed then", func(t *testing.T) {
			w.prewarm(contract.PrewarmNone)
			w.look()
			if start := w.startedAs(); start.Reason != sandbarv1alpha1.StartPrewarmNone {
				t.Errorf("it started as %+v", start)
			}
		})
	}
}

// A look takes a while, and the time of a start can end within it. It is told then, or looked at again: nothing else would.
func TestAStartWhoseTimeEndsDuringALookIsToldSo(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *world{
		"with a member or not at all": func(t *testing.T) *world { return newRequiringWorld(t, 0) },
		"with any": func(t *testing.T) *world {
			w := newWarmWorld(t, 0)
			w.look()
			w.settle() // so that it waits for its pod
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			for asked := range 20 { // how often the look asks for the time before the end
				w := begin(t)
				w.inKCP.Object["spec"].(map[string]any)[contract.StartTimeoutField] = "30s"
				created, times := w.inKCP.GetCreationTimestamp(), 0
				w.now = func() time.Time {
					if times++; times <= asked {
						return created.Add(30*time.Second - time.Millisecond)
					}
					return created.Add(31 * time.Second)
				}
				again := w.look().RequeueAfter
				if c := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition); c.Reason != outcome.ReasonStartTimedOut && (again <= 0 || again > time.Second) {
					t.Errorf("the time ends after %d questions for it: Ready says %s, and it is looked at again in %v (0: never)", asked, c.Reason, again)
				}
			}
		})
	}
}

func TestASandboxThatCannotTakeAMemberIsToldSoAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		word   string
	}{
		"a pod of its own": {func(w *world) { w.writeSource(map[string]any{"podTemplate": podTemplateOf("of-mine")}) }, "pod template of its own"},
		"a patch": {func(w *world) {
			source := fromOwn("mine")
			source["patch"] = map[string]any{"spec": map[string]any{"hostname": "x"}}
			w.writeSource(source)
		}, "patches its template"},
		"suspended": {func(w *world) { w.inKCP.Object["spec"].(map[string]any)["suspended"] = true }, "suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRequiringWorld(t, 1)
			test.change(w)
			w.look()
			w.wantUnstarted(t, outcome.ReasonWarmImpossible, sandbarv1alpha1.InstanceFailed, test.word, "spec.prewarm is Require")
		})
	}
	t.Run("a template that is missing may come", func(t *testing.T) {
		w := newRequiringWorld(t, 1)
		w.writeSource(fromOwn("nobody-has-this"))
		w.look()
		w.wantUnstarted(t, outcome.ReasonTemplateRef, sandbarv1alpha1.InstancePending, "nobody-has-this")
	})
}

// A Sandbox that would start cold does not take the member for which an older one waits.
func TestMembersGoToThoseThatWaitInTheOrderOfTheirCreation(t *testing.T) {
	w := newWarmWorld(t, 1)
	member, err := w.namespaceNamed(w.memberNames()[0])
	if err != nil {
		t.Fatal(err)
	}
	m, _ := placement.MemberOf(member)
	older, owner := fixture.NewInstance(), placement.Owner{Cluster: fixture.Cluster, UID: "older"}
	older.SetName("older")
	older.SetCreationTimestamp(metav1.NewTime(w.inKCP.GetCreationTimestamp().Add(-time.Minute)))
	waits := scope.New(fixture.Thing, w.settings, older, sandbarv1alpha1.InstanceStatus{},
		placement.Placed{ID: owner.Cold(), Owner: owner, Object: types.NamespacedName{Namespace: "team-a", Name: "older"}})
	if all, err := w.members.InLine(t.Context(), waits, m.Revision, true, func() {}); err != nil || len(all) != 1 {
		t.Fatalf("for the older one there are %d, %v", len(all), err)
	}
	for _, prewarm := range []string{contract.PrewarmRequire, contract.PrewarmPrefer} {
		w.prewarm(prewarm)
		w.look()
		if left := w.memberNames(); len(left) != 1 {
			t.Errorf("with prewarm %s it took the member of an older one", prewarm)
		}
	}
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartCold || start.Reason != sandbarv1alpha1.StartSetEmpty {
		t.Errorf("it started as %+v", start)
	}
}

// It kept the last place from the very member that it waited for, and from the instances of all workspaces.
func TestASandboxThatRequiresAMemberKeepsNoPlaceFromOthers(t *testing.T) {
	w := newRequiringWorld(t, 0)
	limits := &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{InstancesPerWorkspace: new(int32(1)), Placements: new(int32(1))}}
	w.settings.Infrastructure.Limits = limits
	w.capacity.follow(fixture.Thing.Template, func(cluster string) []candidate {
		if cluster != fixture.Cluster {
			return nil
		}
		return []candidate{{owner: fixture.Owner, req: testRequest, created: w.inKCP.GetCreationTimestamp().Time, wake: func() {}}}
	})
	w.look()
	elsewhere := placement.ID{Origin: "elsewhere", UID: "born-elsewhere"}
	if err := w.capacity.admitMember(elsewhere, limits); err != nil {
		t.Errorf("a member of another workspace: %v", err)
	}
	w.capacity.giveBack(elsewhere)
	younger := candidate{owner: placement.Owner{Cluster: fixture.Cluster, UID: "younger"}, created: time.Now().Add(time.Hour)}
	if err := w.capacity.admit(younger, limits); err != nil {
		t.Errorf("a younger instance beside it: %v", err)
	}
	drop(w.capacity.reserved, fixture.Cluster, younger.owner.UID)
	w.makeMember(testSet)
	w.look()
	w.hasOne(t)
	if len(w.capacity.apart) > 0 {
		t.Errorf("%v stand aside", w.capacity.apart)
	}
}

// A cold start has as much time as its Sandbox says, and counts when it comes after all.
func TestAStartThatTakesTooLongSaysSo(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.inKCP.Object["spec"].(map[string]any)[contract.StartTimeoutField] = "30s"
	if again := w.look().RequeueAfter; again <= 0 || again > 30*time.Second {
		t.Errorf("it is looked at again in %v", again)
	}
	w.settle()
	if c := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition); c.Reason == outcome.ReasonStartTimedOut {
		t.Fatalf("too early: %+v", c)
	}
	w.now = func() time.Time { return w.inKCP.GetCreationTimestamp().Add(30 * time.Second) }
	w.settle()
	status, _ := outcome.ReadStatus(w.inKCP)
	c := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition)
	if c.Reason != outcome.ReasonStartTimedOut || !strings.Contains(c.Message, "spec.startTimeout") || status.Phase != sandbarv1alpha1.InstanceFailed {
		t.Errorf("%+v, phase %s", c, status.Phase)
	}
	if len(w.ownedNames()) != 1 {
		t.Error("its placement is gone")
	}
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	if c := fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition); c.Status != metav1.ConditionTrue {
		t.Errorf("it came up: %+v", c)
	}
}

func TestAStartIsToldOnceWithAnEvent(t *testing.T) {
	for name, test := range map[string]struct {
		members int
		want    string
	}{
		"warm": {1, "StartedWarm: it took a sandbox that SandboxSet warm had ready"},
		"cold": {0, "StartedCold: SetEmpty: its sandbox is made for it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, test.members)
			w.settle()
			w.settle()
			var told []string
			for _, e := range w.events {
				if strings.HasPrefix(e.Reason, "Started") {
					told = append(told, e.Reason+": "+e.Message)
				}
			}
			if !slices.Equal(told, []string{test.want}) {
				t.Errorf("%v, want %s", told, test.want)
			}
		})
	}
}

func TestAMemberAtRestIsNotLookedAtAgain(t *testing.T) {
	w := newWarmWorld(t, 1)
	name := w.memberNames()[0]
	w.writes = nil
	for range 3 {
		result, err := w.members.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err != nil || result.RequeueAfter != 0 {
			t.Errorf("it is looked at again in %v, %v", result.RequeueAfter, err)
		}
	}
	if len(w.writes) > 0 {
		t.Errorf("%v", w.writes)
	}
}

// A place that a failed adoption left behind would be taken for the placement's own: nothing was made for the Sandbox
// any more, and no other could have its place.
func TestAnAdoptionThatFailsKeepsNoPlace(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		answer error
		again  bool // the reconcile is tried again, and does not go on without a member
	}{
		"since another was faster": {apierrors.NewConflict(namespaces, "x", nil), false},
		"since the member is gone": {apierrors.NewNotFound(namespaces, "x"), false},
		"for no known reason":      {apierrors.NewServiceUnavailable("away"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRequiringWorld(t, 1)
			w.failWrites = func(verb string, obj runtime.Object) error {
				if _, ok := obj.(*corev1.Namespace); ok && verb == "patch" {
					return test.answer
				}
				return nil
			}
			if err := w.reconcile(); (err != nil) != test.again {
				t.Errorf("the reconcile: %v", err)
			}
			if _, adopted := w.members.Adopted(fixture.Owner); adopted || w.capacity.holds(fixture.Owner) {
				t.Errorf("placed %v, reserved %v, adopted %v", w.capacity.placed, w.capacity.reserved, adopted) // the member's own place is among them
			}
			w.failWrites = nil
			w.mustReconcile()
			w.hasOne(t)
		})
	}
}
