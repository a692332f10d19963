// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// smallSet is a set whose members have less than its template says, which Sandboxes get.
func smallSet() members.Set {
	set := cheapSet()
	set.UID, set.Key.Name, set.Keep = "set-small", "small", false
	set.Change.Patch = `{"spec":{"containers":[{"name":"main","workingDir":"/patched","resources":{"requests":{"cpu":"10m"}}}]}}`
	return set
}

// smallMember makes a member of such a set, with the pod that the API server would make.
func (w *world) smallMember() string {
	w.t.Helper()
	id := w.makeMember(smallSet())
	w.editPod(id.Namespace(), func(pod *corev1.Pod) {
		pod.UID, pod.Generation = types.UID("pod-of-"+id.Namespace()), 1
		pod.Status.ObservedGeneration = 1
		quantity := resource.MustParse
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": quantity("10m"), "memory": quantity("128Mi"), "ephemeral-storage": quantity("64Mi")},
			Limits:   corev1.ResourceList{"cpu": quantity("2"), "memory": quantity("2Gi"), "ephemeral-storage": quantity("4Gi")},
		}}}
	})
	w.patches, w.writes = nil, nil
	return id.Namespace()
}

func (w *world) podOf(namespace string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: "sandbox-0"}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *world) editPod(namespace string, edit func(*corev1.Pod)) {
	w.t.Helper()
	pod := w.podOf(namespace)
	edit(pod)
	status := pod.Status
	if err := w.runtime.Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Status = status
	if err := w.runtime.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// nodeSays is the kubelet's word on a pod whose spec has changed; without a condition it is done.
func (w *world) nodeSays(namespace string, name corev1.PodConditionType, reason string) {
	w.t.Helper()
	w.editPod(namespace, func(pod *corev1.Pod) {
		pod.Generation, pod.Status.ObservedGeneration = 2, 2
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress
		})
		if name != "" {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: name, Status: corev1.ConditionTrue, Reason: reason, ObservedGeneration: 2})
		}
	})
}

// kroIsDone is kro's word on a member whose instance has changed.
func (w *world) kroIsDone(namespace string) {
	w.t.Helper()
	instance := w.instanceIn(namespace)
	instance.Object["status"] = fixture.KroReady(instance.GetGeneration())
	if err := w.runtime.Update(w.t.Context(), instance); err != nil {
		w.t.Fatal(err)
	}
	w.lookAtMember(namespace)
}

func (w *world) instanceIn(namespace string) *unstructured.Unstructured {
	w.t.Helper()
	instance := fixture.Thing.NewObject()
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: placement.BornInstance}, instance); err != nil {
		w.t.Fatal(err)
	}
	return instance
}

// composedOf are the fields of a kro instance's pod that a resize changes.
func (w *world) composedOf(namespace string) (cpu, strategy string) {
	instance := w.instanceIn(namespace)
	containers, _, _ := unstructured.NestedSlice(instance.Object, "spec", "pod", "template", "spec", "containers")
	cpu, _, _ = unstructured.NestedString(containers[0].(map[string]any), "resources", "requests", "cpu")
	strategy, _, _ = unstructured.NestedString(instance.Object, "spec", "pod", "updateStrategy")
	return cpu, strategy
}

func (w *world) waitsWith(reason string) {
	w.t.Helper()
	if ready := fixture.ConditionOf(w.t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition); ready.Status != metav1.ConditionFalse || ready.Reason != reason {
		w.t.Fatalf("Ready is %s, %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	if owned := w.ownedNames(); len(owned) > 0 {
		w.t.Fatalf("it has %v already", owned)
	}
}

func (w *world) told(reason string) *corev1.Event {
	for _, event := range w.events {
		if event.Reason == reason {
			return event
		}
	}
	return nil
}

// resized has a Sandbox take a member that is resized before.
func (w *world) resized() string {
	w.t.Helper()
	member := w.smallMember()
	w.mustReconcile()
	w.nodeSays(member, corev1.PodResizeInProgress, "")
	w.mustReconcile()
	w.nodeSays(member, "", "")
	w.kroIsDone(member)
	w.patches, w.writes = nil, nil
	w.mustReconcile()
	w.hasOne(w.t)
	return member
}

func TestAMemberIsResizedBeforeASandboxTakesIt(t *testing.T) {
	for _, revision := range []string{"", "r1"} {
		t.Run("with the revision "+revision, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			w.settings.Revision = revision
			w.templates["mine"].Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m")}
			member := w.smallMember()

			w.mustReconcile()
			w.waitsWith(outcome.ReasonResizing)
			if !slices.Equal(w.writes, []string{"patch resize Pod"}) {
				t.Errorf("on the runtime cluster: %v", w.writes)
			}
			if cpu := w.podOf(member).Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != "100m" {
				t.Errorf("the pod asks for %s", cpu)
			}
			w.mustReconcile() // nothing has come of it yet, and nothing is asked twice
			w.nodeSays(member, corev1.PodResizeInProgress, "")
			w.mustReconcile()
			w.waitsWith(outcome.ReasonResizing)
			if !slices.Equal(w.writes, []string{"patch resize Pod", "apply Thing"}) {
				t.Errorf("on the runtime cluster: %v", w.writes)
			}
			if cpu, strategy := w.composedOf(member); cpu != "100m" || strategy != "OnDelete" {
				t.Errorf("its StatefulSet is to have %s and to be updated by %q", cpu, strategy)
			}
			w.nodeSays(member, "", "")
			w.mustReconcile()
			w.waitsWith(outcome.ReasonResizing) // kro is not done
			w.kroIsDone(member)
			w.patches, w.writes = nil, nil
			w.mustReconcile()
			w.hasOne(t)
			if !slices.Equal(w.patches, []string{"status"}) || !slices.Equal(w.writes, []string{"patch Namespace"}) {
				t.Errorf("the adoption: in kcp %v, on the runtime cluster %v", w.patches, w.writes)
			}
			start := w.startedAs()
			if start.Type != sandbarv1alpha1.StartWarm || start.Reason != "" || start.Set.Name != "small" || start.Resized == nil ||
				start.Resized.From.Requests.Cpu().String() != "10m" || start.Resized.To.Requests.Cpu().String() != "100m" {
				t.Errorf("it started as %+v", start)
			}
			if event := w.told("Resized"); event == nil || event.Type != corev1.EventTypeNormal || !strings.Contains(event.Message, "from cpu 10m") {
				t.Errorf("the event is %v", event)
			}
			w.mustReconcile() // for its finalizer
			w.writes = nil
			w.mustReconcile()
			if len(w.writes) > 0 {
				t.Errorf("at rest: %v", w.writes)
			}
		})
	}
}

func TestAResizedSandboxKeepsWhatItHas(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.settings.Revision = "r1"
	member := w.resized()
	for _, suspended := range []bool{true, false} {
		w.suspend(suspended)
		w.settle()
		if cpu, strategy := w.composedOf(member); cpu != "" || strategy != "OnDelete" || w.container()["workingDir"] != "/patched" {
			t.Errorf("suspended %v: %s, %s, %v", suspended, cpu, strategy, w.container())
		}
	}
	t.Run("until it says something else of its pod, which replaces that", func(t *testing.T) {
		source := fromOwn("mine")
		source["patch"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "mine"}}}
		w.writeSource(source)
		w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
		w.settle()
		if _, strategy := w.composedOf(member); strategy != "" {
			t.Errorf("its StatefulSet is updated by %q", strategy)
		}
	})
}

// What a node, or a quota, makes impossible follows the mode.
func TestAMemberThatCannotBeResized(t *testing.T) {
	infeasible := func(w *world, member string) { w.nodeSays(member, corev1.PodResizePending, corev1.PodReasonInfeasible) }
	forbid := func(w *world, _ string) {
		w.failWrites = func(verb string, _ runtime.Object) error {
			if verb == "patch resize" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "sandbox-0", errors.New("exceeded quota"))
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		mode, prewarm  string
		before, after  func(w *world, member string)
		warm, goes     bool
		reason, waitAs string
	}{
		"the node never has the room":                      {after: infeasible, goes: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"the node never has the room, and it takes any":    {mode: contract.ResizeBestEffort, after: infeasible, warm: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"the node never has the room, and it must be warm": {prewarm: contract.PrewarmRequire, after: infeasible, goes: true, waitAs: outcome.ReasonWaitsForMember},
		"the quota has no room":                            {before: forbid, reason: sandbarv1alpha1.StartResizeInfeasible},
		"the quota has no room, and it takes any":          {mode: contract.ResizeBestEffort, before: forbid, warm: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"the node has no room now":                         {after: func(w *world, member string) { w.nodeSays(member, corev1.PodResizePending, corev1.PodReasonDeferred) }, waitAs: outcome.ReasonResizing},
		"the node has no room for long":                    {after: func(w *world, _ string) { w.ahead = members.ResizePatience + time.Second }, goes: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"the node has no room for long, and it takes any":  {mode: contract.ResizeBestEffort, after: func(w *world, _ string) { w.ahead = members.ResizePatience + time.Second }, warm: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"its pod is replaced meanwhile":                    {after: func(w *world, member string) { w.editPod(member, func(pod *corev1.Pod) { pod.UID = "another" }) }, goes: true, reason: sandbarv1alpha1.StartResizeInfeasible},
		"nobody asks for it":                               {mode: contract.ResizeKeep, warm: true},
		"the set says so now":                              {before: func(w *world, _ string) { set := smallSet(); set.Keep = true; w.configure(set) }, warm: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			member := w.smallMember()
			spec := w.inKCP.Object["spec"].(map[string]any)
			for field, value := range map[string]string{contract.ResizeField: test.mode, contract.PrewarmField: test.prewarm} {
				if value != "" {
					spec[field] = value
				}
			}
			if test.before != nil {
				test.before(w, member)
			}
			w.mustReconcile()
			if test.after != nil {
				w.waitsWith(outcome.ReasonResizing)
				test.after(w, member)
				w.mustReconcile()
			}
			if gone := !slices.Contains(w.memberNames(), member) && !slices.Contains(w.ownedNames(), member); gone != test.goes {
				t.Errorf("the member goes: %v", gone)
			}
			if test.waitAs != "" {
				w.waitsWith(test.waitAs)
				return
			}
			start := w.startedAs()
			if warm := slices.Equal(w.ownedNames(), []string{member}); warm != test.warm || start.Reason != test.reason || start.Resized != nil {
				t.Errorf("warm %v, it started as %+v", warm, start)
			}
			if !test.warm {
				return
			}
			if cpu := w.podOf(member).Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != "10m" {
				t.Errorf("its pod has %s", cpu)
			}
			event, ready := w.told(sandbarv1alpha1.StartResizeInfeasible), fixture.ConditionOf(t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition)
			if says := strings.Contains(ready.Message, "has the resources of its SandboxSet"); says != (test.reason != "") || ready.Status != metav1.ConditionTrue {
				t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
			}
			if warned := event != nil && event.Type == corev1.EventTypeWarning; warned != (test.reason != "") {
				t.Errorf("the event is %v", event)
			}
		})
	}
}

// One claim on a node that is full must not empty a set.
func TestNoSandboxTriesMoreMembersThanItMay(t *testing.T) {
	w := newWarmWorld(t, 0)
	for range 5 {
		w.smallMember()
	}
	for range 4 {
		before := w.memberNames()
		w.mustReconcile()
		for _, member := range before {
			if ns, err := w.namespaceNamed(member); err == nil && ns.Labels[placement.LabelMemberState] == placement.MemberWarm {
				w.nodeSays(member, corev1.PodResizePending, corev1.PodReasonInfeasible)
			}
		}
	}
	if left := w.memberNames(); len(left) != 2 {
		t.Errorf("%d of 5 are left", len(left))
	}
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartCold || start.Reason != sandbarv1alpha1.StartResizeInfeasible {
		t.Errorf("it started as %+v", start)
	}
}

// A process that starts finds a pod that was resized, and goes on.
func TestAResizeGoesOnAfterAStartOfTheProvider(t *testing.T) {
	w := newWarmWorld(t, 0)
	member := w.smallMember()
	w.mustReconcile()
	w.nodeSays(member, "", "")
	w.mustReconcile()
	w.kroIsDone(member)
	w.members, w.capacity = w.newMembers(), newCapacity()
	w.configure(smallSet())
	w.lookAtMember(member)
	w.patches, w.writes = nil, nil
	w.mustReconcile()
	w.hasOne(t)
	if slices.Contains(w.writes, "patch resize Pod") {
		t.Errorf("it is asked for again: %v", w.writes)
	}
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || start.Resized != nil {
		t.Errorf("it started as %+v", start)
	}
}

// scopeNamed is that of a Sandbox like the tenant's.
func (w *world) scopeNamed(name string) *scope.Scope {
	obj := w.inKCP.DeepCopy()
	obj.SetName(name)
	placed := fixture.Placed
	placed.Object.Name = name
	return scope.New(fixture.Thing, w.settings, obj, sandbarv1alpha1.InstanceStatus{}, placed)
}

// Two Sandboxes that want the same member do not both wait for it.
func TestAMemberThatIsBeingResizedIsNobodyElses(t *testing.T) {
	w := newWarmWorld(t, 0)
	member := w.smallMember()
	w.mustReconcile()
	if of, err := w.members.Of(context.Background(), smallSet().Key); err != nil || len(of) > 0 {
		t.Errorf("its set counts it, and makes none in its place: %v %v", of, err)
	}
	pod, err := w.reconciler().podFacts(t.Context(), w.scopeNamed("web"))
	if err != nil {
		t.Fatal(err)
	}
	candidates, err := w.members.InLine(t.Context(), w.scopeNamed("another"), pod.Revision, false, func() {})
	if err != nil || len(candidates) > 0 {
		t.Errorf("another one may have %v, %v", candidates, err)
	}
	if mine, err := w.members.InLine(t.Context(), w.scopeNamed("web"), pod.Revision, false, func() {}); err != nil || len(mine) != 1 || mine[0].Name != member {
		t.Errorf("it may have %v, %v", mine, err)
	}
	w.inKCP = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if of, err := w.members.Of(context.Background(), smallSet().Key); err != nil || len(of) != 1 {
		t.Errorf("when the Sandbox is gone, its set has %v, %v", of, err)
	}
}

func TestASetWhoseMembersCouldNotBeResizedIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ patch, reason, words string }{
		"another class": {
			`{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"50m","memory":"64Mi"},"requests":{"cpu":"50m","memory":"64Mi"}}}]}}`,
			sandbarv1alpha1.SandboxSetQosClassChanges, "the QoS class is Guaranteed and would become Burstable",
		},
		"another disk": {
			`{"spec":{"containers":[{"name":"main","resources":{"requests":{"ephemeral-storage":"1Mi"}}}]}}`,
			sandbarv1alpha1.SandboxSetPatchRefused, "ephemeral-storage",
		},
		"a restart": {
			`{"spec":{"containers":[{"name":"main","resizePolicy":[{"resourceName":"memory","restartPolicy":"RestartContainer"}],"resources":{"requests":{"memory":"64Mi"}}}]}}`,
			sandbarv1alpha1.SandboxSetPatchRefused, "has it restarted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			set := smallSet()
			set.Change.Patch = test.patch
			made, _, err := w.members.Revision(t.Context(), set)
			var refused *outcome.RefusalError
			if !errors.As(err, &refused) || refused.Reason != test.reason || !strings.HasPrefix(refused.Message, "correct spec.patch: ") ||
				!strings.Contains(refused.Message, test.words) || !strings.Contains(refused.Message, "spec.resizeOnClaim to Keep") || made.TemplateRevision == "" {
				t.Errorf("%+v, %v", made, err)
			}
			set.Keep = true
			if made, _, err = w.members.Revision(t.Context(), set); err != nil || made.Differs != placement.PatchedResourcesDiffer {
				t.Errorf("with Keep: %+v, %v", made, err)
			}
		})
	}
}
