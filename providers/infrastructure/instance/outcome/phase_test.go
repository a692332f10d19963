// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// history is an instance whose status follows what happens to it, step by step.
type history struct {
	t *testing.T
	s *scope.Scope
	o Outcome
}

func newHistory(t *testing.T) *history {
	return &history{t: t, s: fixture.NewScope(), o: Outcome{Now: fixture.Now, Instance: fixture.KroInstance(fixture.KroReady(1))}}
}

// suspended changes the tenant's spec, and kro's instance follows.
func (l *history) suspended(value bool) {
	l.s.Object().Object["spec"].(map[string]any)["suspended"] = value
	l.s.Object().SetGeneration(l.s.Object().GetGeneration() + 1)
	l.kro("composing")
}

// runsPods makes the kind one whose graph makes workloads.
func (l *history) runsPods() {
	settings := l.s.Settings()
	settings.RunsPods = true
	l.s = scope.New(l.s.Kind(), settings, l.s.Object(), l.s.Status(), l.s.Placement())
}

func (l *history) kro(state string) {
	generation := l.o.Instance.GetGeneration()
	switch state {
	case "composing": // a new spec that kro has not seen
		l.o.Instance.SetGeneration(generation + 1)
	case "waits": // for a readiness
		l.o.Instance.Object["status"] = map[string]any{
			"state": "IN_PROGRESS", "conditions": []any{fixture.KroCondition("ResourcesReady", "False", generation, "waiting for node \"app\"")},
		}
	case "active":
		l.o.Instance.Object["status"] = fixture.KroReady(generation)
	}
}

func (l *history) pods(pods ...corev1.Pod) { l.o.Pods = Summarize(pods, fixture.Now) }

// says reconciles, lets a minute pass and returns the phase, Ready's reason and Suspended's.
func (l *history) says() string {
	l.t.Helper()
	status, err := BuildStatus(l.s, l.o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.s = fixture.Reporting(l.t, l.s, status)
	l.o.Now = l.o.Now.Add(time.Minute)
	decoded, err := ReadStatus(l.s.Object())
	if err != nil {
		l.t.Fatal(err)
	}
	ready, suspended := fixture.ConditionOf(l.t, l.s.Object(), "Ready"), fixture.ConditionOf(l.t, l.s.Object(), "Suspended")
	if (decoded.Suspension != nil) != meta.IsStatusConditionTrue(decoded.Conditions, "Suspended") {
		l.t.Errorf("status.suspension is %v while Suspended is %s", decoded.Suspension, suspended.Status)
	}
	return string(decoded.Phase) + " " + string(ready.Status) + ":" + ready.Reason + " " + string(suspended.Status) + ":" + suspended.Reason
}

func TestAnInstanceGoesThroughItsStates(t *testing.T) {
	starting, up := fixture.PodOf("a", fixture.WaitingFor("ContainerCreating", "")), fixture.PodOf("a", fixture.Running(time.Hour, true, 0))
	crashing := fixture.PodOf("a", fixture.Ended(1, "Error"))
	going := fixture.With(up, func(p *corev1.Pod) { now := fixture.Before(0); p.DeletionTimestamp = &now })
	full := fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable("Insufficient cpu"))
	unclaimed := fixture.With(full, fixture.Unschedulable(`persistentvolumeclaim "data-sandbox-0" not found`))
	refused := &RefusalError{Reason: ReasonSpecRefused, Message: "correct spec.template: x"}
	type step struct {
		does func(*history)
		want string
	}
	ready := []step{
		{func(l *history) { l.kro("waits") }, "Materializing False:NotComposed False:NotSuspended"},
		{func(l *history) { l.pods(starting) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
		{func(l *history) { l.pods(up); l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
	}
	suspended := append(ready[2:3:3],
		step{func(l *history) { l.suspended(true) }, "Suspending False:SandboxPodScalingDown True:ByUser"},
		step{func(l *history) { l.pods(going); l.kro("waits") }, "Suspending False:SandboxPodScalingDown True:ByUser"},
		step{func(l *history) { l.pods(); l.kro("active") }, "Suspended False:SandboxPodDeleted True:ByUser"},
		step{func(l *history) { l.suspended(false) }, "Waking False:SandboxPodInitializing False:NotSuspended"},
	)
	for name, steps := range map[string][]step{
		"it comes up": ready,
		"a kind that runs pods begins by initializing": {
			{func(l *history) { l.runsPods() }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.kro("waits") }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.pods(up); l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
		},
		"it is suspended from the start": {
			{func(l *history) { l.suspended(true) }, "Suspended False:SandboxPodDeleted True:ByUser"},
			{func(l *history) { l.kro("waits") }, "Suspended False:SandboxPodDeleted True:ByUser"},
			{func(l *history) { l.kro("active") }, "Suspended False:SandboxPodDeleted True:ByUser"},
			{func(l *history) { l.suspended(true) }, "Suspended False:SandboxPodDeleted True:ByUser"}, // another change
		},
		"it is suspended as it wakes, before kro has seen either": append(suspended[:5:5],
			step{func(l *history) { l.suspended(true) }, "Suspending False:SandboxPodScalingDown True:ByUser"},
			step{func(l *history) { l.kro("active") }, "Suspended False:SandboxPodDeleted True:ByUser"},
		),
		"a program without a probe that crashes at once is ready once at most": {
			{func(l *history) { l.pods(fixture.PodOf("a", fixture.Running(0, true, 0))); l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
			{func(l *history) { l.o.Now = l.o.Now.Add(time.Second - time.Minute); l.pods(crashing) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			{func(l *history) { l.pods(fixture.PodOf("a", fixture.Running(time.Second, true, 1))) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			{func(l *history) { l.pods(crashing) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			{func(l *history) { l.pods(fixture.PodOf("a", fixture.Running(momentTime, true, 2))) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			{func(l *history) { l.pods(fixture.PodOf("a", fixture.Running(settleTime, true, 2))) }, "Ready True:SandboxPodReady False:NotSuspended"},
		},
		"it is suspended and resumes": append(suspended[:5:5],
			step{func(l *history) { l.pods(starting); l.kro("waits") }, "Waking False:SandboxPodInitializing False:NotSuspended"},
			step{func(l *history) { l.pods(up); l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
		),
		"it crashes while it wakes": append(suspended[:5:5],
			step{func(l *history) { l.pods(crashing); l.kro("waits") }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			step{func(l *history) { l.suspended(true) }, "Suspending False:SandboxPodScalingDown True:ByUser"},
		),
		"it finds no room as it wakes": append(suspended[:5:5],
			step{func(l *history) { l.pods(full); l.kro("waits") }, "PendingCapacity False:SandboxPodInitializing False:NotSuspended"},
			step{func(l *history) { l.pods(up); l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
		),
		"what was ready and crashes is degraded until it is well": append(ready[2:3:3],
			step{func(l *history) { l.pods(crashing) }, "Degraded False:SandboxPodNotReady False:NotSuspended"},
			step{func(l *history) { l.kro("waits") }, "Degraded False:SandboxPodNotReady False:NotSuspended"},
			step{func(l *history) { l.pods(starting) }, "Degraded False:SandboxPodInitializing False:NotSuspended"},
			step{func(l *history) { l.pods(up) }, "Degraded False:SandboxPodInitializing False:NotSuspended"},
			step{func(l *history) { l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
		),
		"what was ready for a moment and crashes has failed": append(ready[2:3:3],
			step{func(l *history) { l.o.Now = l.o.Now.Add(time.Second - time.Minute); l.pods(crashing) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
		),
		"what never was ready and crashes has failed": {
			{func(l *history) { l.kro("waits"); l.pods(crashing) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
			{func(l *history) { l.pods(starting) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
		},
		"a changed spec begins anew": append(ready[2:3:3],
			step{func(l *history) { l.suspended(false) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
			step{func(l *history) { l.pods(crashing) }, "Failed False:SandboxPodNotReady False:NotSuspended"},
		),
		"its volume comes a moment after its pod, and then there is no room": {
			{func(l *history) { l.kro("waits"); l.pods(unclaimed) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.pods(full) }, "PendingCapacity False:SandboxPodInitializing False:NotSuspended"},
		},
		"an edit is refused while the former pod serves, and then it crashes": append(ready[2:3:3],
			step{func(l *history) { l.suspended(false); l.o.Composing = refused }, "Degraded False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.pods(crashing) }, "Failed False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.pods(up) }, "Degraded False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.suspended(true) }, "Suspending False:SandboxPodScalingDown True:ByUser"},
			step{func(l *history) { l.pods() }, "Suspended False:SandboxPodDeleted True:ByUser"},
			step{func(l *history) { l.suspended(false) }, "Waking False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.pods(crashing) }, "Failed False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.pods(up) }, "Degraded False:NotComposed False:NotSuspended"},
		),
		"the first spec is refused, and suspended": {
			{func(l *history) { l.o.Composing = refused }, "Failed False:NotComposed False:NotSuspended"},
			{func(l *history) { l.suspended(true); l.o.Instance = nil }, "Failed False:SandboxPodDeleted True:ByUser"},
		},
		"an edit is refused and then corrected": append(ready[2:3:3],
			step{func(l *history) { l.suspended(false); l.o.Composing = refused }, "Degraded False:NotComposed False:NotSuspended"},
			step{func(l *history) { l.suspended(false); l.o.Composing = nil; l.kro("active") }, "Ready True:SandboxPodReady False:NotSuspended"},
		),
		"the first spec is refused": {
			{func(l *history) { l.o.Composing = refused }, "Failed False:NotComposed False:NotSuspended"},
		},
		"it waits for room": {
			{func(l *history) { l.kro("waits"); l.pods(full) }, "PendingCapacity False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.pods(); l.o.Finding = OutOfQuota("x") }, "PendingCapacity False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.o.Finding = nil; l.pods(starting) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
		},
		"a kind without pods": {
			{func(l *history) { l.kro("waits") }, "Materializing False:NotComposed False:NotSuspended"},
			{func(l *history) { l.kro("active") }, "Ready True:ResourcesReady False:NotSuspended"},
			{func(l *history) { l.suspended(true); l.kro("active") }, "Suspended False:SandboxPodDeleted True:ByUser"},
			{func(l *history) { l.suspended(false); l.kro("active") }, "Ready True:ResourcesReady False:NotSuspended"},
		},
		"a graph that does not wait for its pods": {
			{func(l *history) { l.kro("active"); l.pods(starting) }, "Materializing False:SandboxPodInitializing False:NotSuspended"},
			{func(l *history) { l.pods(up) }, "Ready True:SandboxPodReady False:NotSuspended"},
		},
		"a Job that fails beside what serves": {
			{func(l *history) {
				l.kro("active")
				l.pods(up, fixture.With(fixture.PodOf("job", fixture.Ended(1, "")), func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }))
			}, "Ready True:SandboxPodReady False:NotSuspended"},
			{func(l *history) { l.kro("waits") }, "Degraded False:SandboxPodNotReady False:NotSuspended"},
		},
		"deleted while suspended": append(suspended[:4:4],
			step{func(l *history) { l.o = Outcome{Deleting: "waiting", Now: fixture.Now} }, "Deleting False:Deleting True:ByUser"},
		),
	} {
		t.Run(name, func(t *testing.T) {
			l := newHistory(t)
			l.kro("composing")
			for i, step := range steps {
				step.does(l)
				if got := l.says(); got != step.want {
					t.Errorf("step %d: %s, want %s", i, got, step.want)
				}
			}
		})
	}
}

func TestASuspensionKeepsItsTimeAndTellsWhatIsKept(t *testing.T) {
	l := newHistory(t)
	l.suspended(true)
	l.o.Volumes = true
	l.says()
	l.o.Now, l.o.Volumes = fixture.Now.Add(time.Hour), false // what is known once is not asked again
	l.pods()
	l.kro("active")
	l.says()
	want := map[string]any{"since": "2026-01-02T03:04:05Z", "cause": "ByUser", "kept": []any{"Identity", "Volumes"}}
	if diff := cmp.Diff(want, l.s.Object().Object["status"].(map[string]any)["suspension"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
