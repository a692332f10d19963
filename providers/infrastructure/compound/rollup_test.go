// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// conditionsOf are conditions of a group's status: those that are True, and one that is not.
func conditionsOf(isFalse string) string {
	var all []string
	name, rest, _ := strings.Cut(isFalse, " ")
	for _, one := range []string{"Placed", "Composed", "Ready"} {
		if one == name {
			all = append(all, fmt.Sprintf(`{type: %s, status: "False", %s}`, one, rest))
		} else {
			all = append(all, fmt.Sprintf(`{type: %s, status: "True", reason: Good}`, one))
		}
	}
	return "conditions: [" + strings.Join(all, ", ") + "]"
}

// rowsOf are the components of a group's status: frontend as given, and api, which is ready.
func rowsOf(frontend string) string {
	return `sandboxID: sbx-abcd1234, components: [{name: frontend, ` + frontend + `}, {name: api, ready: true, replicas: 2, image: "api:1", conditions: [{type: Ready, status: "True", reason: Ready}]}]`
}

const readyRow = `ready: true, replicas: 1, image: "web:2"`

func TestAStatusIsRolledUp(t *testing.T) {
	suspending := `{type: Ready, status: "False", reason: SandboxPodScalingDown, message: the pods are being released}`
	suspendedRows := rowsOf(`replicas: 1, image: "web:2"`)
	for name, row := range map[string]struct {
		group     string // its status; empty for no group
		verdict   Verdict
		suspended sandbarv1alpha1.SuspensionCause
		deleting  string
		old       sandbarv1alpha1.InstancePhase
		change    func(group *unstructured.Unstructured)

		phase                    sandbarv1alpha1.InstancePhase
		applied, rendered, ready string // reasons, after + or - for the status
		says                     string // of Ready
	}{
		"there is no group yet": {phase: "Materializing", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending", says: "there is no SandboxGroup yet"},
		"the group is ready":    {group: "phase: Ready, " + rowsOf(readyRow) + ", " + conditionsOf(""), phase: "Ready", applied: "+ApplySucceeded", rendered: "+Rendered", ready: "+WorkloadsReady"},
		"the group was not looked at since it was changed": {
			group: "phase: Ready, " + rowsOf(readyRow) + ", " + conditionsOf(""), old: "Ready", change: func(g *unstructured.Unstructured) { g.SetGeneration(3) },
			phase: "Materializing", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending", says: "has not looked at the SandboxGroup",
		},
		"the group was never looked at": {
			group: "phase: Pending", change: func(g *unstructured.Unstructured) { unstructured.RemoveNestedField(g.Object, "status") },
			phase: "Materializing", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending",
		},
		"pods are starting": {
			group: "phase: Materializing, " + rowsOf("ready: false") + ", " + conditionsOf("Composed reason: Composing, message: the resources are being made"),
			phase: "Materializing", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending", says: "workload frontend: the resources are being made",
		},
		"an image cannot be pulled": {
			group: "phase: Failed, " + rowsOf("ready: false") + ", " + conditionsOf("Composed reason: ImagePullFailed, message: correct its name"),
			phase: "Failed", applied: "+ApplySucceeded", rendered: "-ImagePullFailed", ready: "-ImagePullFailed", says: "workload frontend: correct its name",
		},
		"there is no room": {
			group: "phase: PendingCapacity, " + conditionsOf("Placed reason: WorkspaceLimit, message: the workspace may have 1 instances"),
			phase: "PendingCapacity", applied: "+ApplySucceeded", rendered: "-WorkspaceLimit", ready: "-WorkspaceLimit", says: "the workspace may have 1",
		},
		"a pod has failed after all were ready": {
			group: "phase: Degraded, " + rowsOf("ready: false") + ", " + conditionsOf("Ready reason: SandboxPodNotReady, message: 1 of 2 pods"),
			phase: "Degraded", applied: "+ApplySucceeded", rendered: "-SandboxPodNotReady", ready: "-SandboxPodNotReady", says: "workload frontend: 1 of 2 pods",
		},
		"a workload is not in the Baseline": {
			group: "phase: Degraded, " + rowsOf(`conditions: [{type: SourceResolved, status: "False", reason: SourceNotFound, message: there is no Deployment storefront}, {type: Rendered, status: "False", reason: SourceNotResolved}]`) + ", " +
				conditionsOf("Composed reason: SourceNotFound, message: 'component frontend: there is none'"),
			phase: "Degraded", applied: "+ApplySucceeded", rendered: "-SourceNotFound", ready: "-SourceNotFound", says: "workload frontend: there is no Deployment storefront",
		},
		"a workload cannot be rendered": {
			group: "phase: Failed, " + rowsOf(`conditions: [{type: SourceResolved, status: "True", reason: Snapshot}, {type: Rendered, status: "False", reason: RenderFailed, message: container x is not there}]`) + ", " +
				conditionsOf("Composed reason: RenderFailed, message: m"),
			phase: "Failed", applied: "+ApplySucceeded", rendered: "-RenderFailed", ready: "-RenderFailed", says: "workload frontend: container x is not there",
		},
		"the Baseline is not for the workspace": {
			group: "phase: Failed, " + conditionsOf("Composed reason: BaselineNotFound, message: 'spec.baselineRef.name: there is no Baseline shop for this workspace'"),
			phase: "Pending", applied: "-NotAllowed", rendered: "-BaselineNotFound", ready: "-NotAllowed", says: "spec.baselineRef.name: there is no Baseline shop",
		},
		"the Baseline was withdrawn from copies that run": {
			group: "phase: Degraded, " + rowsOf(readyRow) + ", " + conditionsOf("Composed reason: BaselineNotFound, message: m"),
			phase: "Degraded", applied: "-NotAllowed", rendered: "-BaselineNotFound", ready: "-NotAllowed",
		},
		"the group cannot read the spec": {
			group: "phase: Failed, " + conditionsOf("Composed reason: SpecRefused, message: 'correct spec.components[0]'"),
			phase: "Failed", applied: "-InvalidSpec", rendered: "-SpecRefused", ready: "-InvalidSpec", says: "correct spec.workloads[0]",
		},
		"the spec is refused": {
			verdict: Verdict{Reason: ReasonInvalidSpec, Message: "correct it"},
			phase:   "Failed", applied: "-InvalidSpec", rendered: "-ResourcesPending", ready: "-InvalidSpec", says: "correct it",
		},
		"a change is refused, and what was before serves": {
			group: "phase: Ready, " + rowsOf(readyRow) + ", " + conditionsOf(""), verdict: Verdict{Reason: ReasonActivityNotVisible, Message: "remove it"},
			phase: "Degraded", applied: "-ActivityNotVisible", rendered: "+Rendered", ready: "-ActivityNotVisible", says: "remove it",
		},
		"the name is taken": {
			verdict: Verdict{Reason: ReasonNameTaken, Message: "delete it"},
			phase:   "Failed", applied: "-NameTaken", rendered: "-ResourcesPending", ready: "-NameTaken", says: "delete it",
		},
		"the workspace does not take the group": {
			verdict: Verdict{Reason: ReasonApplyFailed, Message: "the provider tries again"},
			phase:   "Pending", applied: "-ApplyFailed", rendered: "-ResourcesPending", ready: "-ApplyFailed",
		},
		"somebody deletes the group": {
			group: "phase: Deleting, " + rowsOf(readyRow) + ", " + conditionsOf("Placed reason: Deleting, message: m"), verdict: Verdict{Reason: ReasonApplyFailed, Message: "another one is made"},
			change: func(g *unstructured.Unstructured) { g.SetDeletionTimestamp(&metav1.Time{Time: now}) },
			phase:  "Materializing", applied: "-ApplyFailed", rendered: "-ResourcesPending", ready: "-ApplyFailed", says: "another one is made",
		},
		"it is being suspended, and the group does not know": {
			group: "phase: Ready, " + rowsOf(readyRow) + ", " + conditionsOf(""), suspended: "ByUser", old: "Ready", change: func(g *unstructured.Unstructured) { g.SetGeneration(3) },
			phase: "Suspending", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending",
		},
		"its pods are being released": {
			group: "phase: Suspending, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z, kept: [Identity]}, " + suspendedRows + ", conditions: [{type: Placed, status: 'True'}, " + suspending + "]", suspended: "ByUser",
			phase: "Suspending", applied: "+ApplySucceeded", rendered: "+Rendered", ready: "-SandboxPodScalingDown", says: "the pods are being released",
		},
		"it is suspended": {
			group: "phase: Suspended, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z}, " + suspendedRows + ", " + conditionsOf("Ready reason: SandboxPodDeleted, message: there are no pods"), suspended: "Expired",
			phase: "Suspended", applied: "+ApplySucceeded", rendered: "+Rendered", ready: "-SandboxPodDeleted", says: "there are no pods",
		},
		"it is suspended, and another field changes": {
			group: "phase: Suspended, " + suspendedRows + ", " + conditionsOf(""), suspended: "ByUser", old: "Suspended", change: func(g *unstructured.Unstructured) { g.SetGeneration(3) },
			phase: "Suspended", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending",
		},
		"it is suspended while the spec is refused": {
			group: "phase: Suspended, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z}, " + suspendedRows + ", " + conditionsOf("Ready reason: SandboxPodDeleted"), suspended: "ByUser", verdict: Verdict{Reason: ReasonInvalidSpec},
			phase: "Suspended", applied: "-InvalidSpec", rendered: "+Rendered", ready: "-InvalidSpec",
		},
		"it is being resumed, and the group does not know": {
			group: "phase: Suspended, " + suspendedRows + ", " + conditionsOf(""), old: "Suspended", change: func(g *unstructured.Unstructured) { g.SetGeneration(3) },
			phase: "Waking", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending",
		},
		"its pods are coming back": {
			group: "phase: Waking, " + suspendedRows + ", " + conditionsOf("Composed reason: Composing, message: m"), old: "Waking",
			phase: "Waking", applied: "+ApplySucceeded", rendered: "-ResourcesPending", ready: "-ResourcesPending", says: "workload frontend: m",
		},
		"it is deleted while it is suspended": {
			group: "phase: Deleting, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z}, " + suspendedRows, suspended: "ByUser", old: "Suspended", deleting: "waiting for SandboxGroup preview to be removed",
			phase: "Deleting", applied: "-Deleting", rendered: "-Deleting", ready: "-Deleting", says: "waiting for SandboxGroup preview",
		},
		"it is being deleted": {
			group: "phase: Deleting, " + rowsOf(readyRow), deleting: "waiting for SandboxGroup preview to be removed",
			phase: "Deleting", applied: "-Deleting", rendered: "-Deleting", ready: "-Deleting", says: "waiting for SandboxGroup preview",
		},
	} {
		t.Run(name, func(t *testing.T) {
			look := LookAt(sandbox(t), sandbarv1alpha1.InstanceStatus{Phase: row.old}, words(), now)
			look.Copies.Verdict, look.Suspended, look.Deleting = row.verdict, row.suspended, row.deleting
			if row.verdict == (Verdict{}) {
				look.Copies.Verdict = succeeded("SandboxGroup")
			}
			if row.group != "" {
				look.Copies.Part = groupOf(t, look.Object, row.group)
			}
			if row.change != nil {
				row.change(look.Copies.Part)
			}
			status, _ := rolled(t, look)
			if status.Phase != row.phase {
				t.Errorf("the phase is %s, want %s", status.Phase, row.phase)
			}
			for condition, want := range map[string]string{"Applied": row.applied, "Rendered": row.rendered, "Attached": "+NoRouting", "Ready": row.ready} {
				c := meta.FindStatusCondition(status.Conditions, condition)
				if got := map[metav1.ConditionStatus]string{"True": "+", "False": "-"}[c.Status] + c.Reason; got != want {
					t.Errorf("%s is %s, want %s", condition, got, want)
				}
				if condition == "Ready" && !strings.Contains(c.Message, row.says) {
					t.Errorf("Ready says %q, want %q", c.Message, row.says)
				}
			}
			if c := meta.FindStatusCondition(status.Conditions, "Suspended"); (c.Status == metav1.ConditionTrue) != (row.suspended != "") || (status.Suspension != nil) != (row.suspended != "") {
				t.Errorf("Suspended is %+v, and the suspension %+v", c, status.Suspension)
			}
		})
	}
}

// rolled is the status that a look leads to. It has to be of the form that the schema has.
func rolled(t *testing.T, look Look) (sandbarv1alpha1.InstanceStatus, sandbarv1alpha1.SandboxWorkloadsStatus) {
	t.Helper()
	fields, err := RollUp(look)
	if err != nil {
		t.Fatal(err)
	}
	status, err := outcome.StatusOf(fields)
	if err != nil {
		t.Fatal(err)
	}
	var workloads sandbarv1alpha1.SandboxWorkloadsStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &workloads); err != nil {
		t.Fatal(err)
	}
	return status, workloads
}

func TestAStatusHasWhatIsThereOfTheWorkloads(t *testing.T) {
	look := LookAt(sandbox(t), sandbarv1alpha1.InstanceStatus{}, words(), now)
	look.Copies.Verdict = succeeded("SandboxGroup")
	status, workloads := rolled(t, look)
	nothing := sandbarv1alpha1.SandboxWorkloadsStatus{Workloads: []sandbarv1alpha1.SandboxWorkloadStatus{{Name: "frontend"}, {Name: "api"}}}
	if diff := cmp.Diff(nothing, workloads); diff != "" {
		t.Errorf("before there is a group (-want +got):\n%s", diff)
	}
	if status.ObservedGeneration != 3 || status.CreatedBy == nil || status.CreatedBy.Username != "alice" || status.DataPlane != nil {
		t.Errorf("%+v", status)
	}
	look.Copies.Part = groupOf(t, look.Object, "phase: Ready, "+rowsOf(readyRow)+", "+conditionsOf("")+", activity: {lastActiveTime: 2026-01-01T00:00:00Z}")
	status, workloads = rolled(t, look)
	want := sandbarv1alpha1.SandboxWorkloadsStatus{
		RoutingKey:     &sandbarv1alpha1.RoutingKey{HeaderName: "baggage", Value: "sbx-abcd1234"},
		UnderlyingRefs: &sandbarv1alpha1.SandboxUnderlyingRefs{SandboxGroupName: "preview"},
		Workloads: []sandbarv1alpha1.SandboxWorkloadStatus{
			{Name: "frontend", Ready: true, Replicas: new(int32(1)), Image: "web:2"}, {Name: "api", Ready: true, Replicas: new(int32(2)), Image: "api:1"},
		},
	}
	if diff := cmp.Diff(want, workloads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if status.Activity == nil || !status.Activity.LastActiveTime.Equal(&metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}) {
		t.Errorf("%+v", status.Activity)
	}
}

// A status that differs at each look would be written at each look.
func TestAStatusAtRestStaysAsItIs(t *testing.T) {
	look := LookAt(sandbox(t), sandbarv1alpha1.InstanceStatus{}, words(), now)
	look.Copies.Verdict, look.Suspended = succeeded("SandboxGroup"), sandbarv1alpha1.SuspendedByUser
	look.Copies.Part = groupOf(t, look.Object, "phase: Suspended, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z, kept: [Identity, Volumes]}, "+rowsOf("ready: false")+", "+conditionsOf("Ready reason: SandboxPodDeleted"))
	first, err := RollUp(look)
	if err != nil {
		t.Fatal(err)
	}
	look.Old, _ = rolled(t, look)
	look.Now = now.Add(time.Hour)
	second, err := RollUp(look)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}
