// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// record is one status of an instance.
type record struct {
	phase      string
	generation int64
	deleting   bool
	sandbarv1alpha1.InstanceStatus
}

func recordOf(obj *unstructured.Unstructured) *record {
	r := &record{generation: obj.GetGeneration(), deleting: obj.GetDeletionTimestamp() != nil}
	fields, _ := obj.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &r.InstanceStatus); err != nil {
		r.Phase = "Undecodable"
	}
	r.phase = string(r.Phase)
	return r
}

func (r *record) is(kind string) bool { return meta.IsStatusConditionTrue(r.Conditions, kind) }

func (r *record) reason(kind string) string {
	if c := meta.FindStatusCondition(r.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// kinds are the conditions that a status has, in their order. An instance with workloads is made of another one, which is placed
// and composed.
func (r *record) kinds() []string {
	if r.reason("Applied") != "" {
		return []string{"Applied", "Rendered", "Attached", "Suspended", "Ready"}
	}
	return []string{"Placed", "Composed", "Suspended", "Ready"}
}

func (r *record) in(phases ...string) bool { return slices.Contains(phases, r.phase) }

func anyCondition(before, now *record, is func(before, now metav1.Condition) bool) bool {
	if before == nil {
		return false
	}
	return slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool {
		old := meta.FindStatusCondition(before.Conditions, c.Type)
		return old != nil && is(*old, c)
	})
}

// impossible are what no status may ever say, by itself or after the one before, which may be
// nil.
var impossible = map[string]func(before, now *record) bool{
	"a condition is missing or twice": func(_, now *record) bool {
		var names []string
		for _, c := range now.Conditions {
			names = append(names, c.Type)
		}
		return !slices.Equal(names, now.kinds())
	},
	"a phase that there is not": func(_, now *record) bool {
		return !now.in("Pending", "PendingCapacity", "Materializing", "Ready", "Degraded", "Suspending", "Suspended", "Sleeping", "Waking", "Failed", "Deleting")
	},
	"ready and suspended": func(_, now *record) bool { return now.is("Ready") && now.is("Suspended") },
	"ready, and something before it is not": func(_, now *record) bool {
		return now.is("Ready") && slices.ContainsFunc(now.kinds(), func(kind string) bool { return kind != "Suspended" && !now.is(kind) })
	},
	"composed and not placed":    func(_, now *record) bool { return now.is("Composed") && !now.is("Placed") },
	"Ready and the phase differ": func(_, now *record) bool { return now.is("Ready") != now.in("Ready") },
	"Suspended and the phase differ": func(_, now *record) bool {
		return now.in("Suspending", "Suspended", "Sleeping") && !now.is("Suspended")
	},
	"suspended, and the phase speaks of running": func(_, now *record) bool {
		return now.is("Suspended") && !now.in("Suspending", "Suspended", "Sleeping", "Pending", "Failed", "Deleting")
	},
	"Suspended and the suspension differ": func(_, now *record) bool {
		return now.is("Suspended") != (now.Suspension != nil) ||
			now.Suspension != nil && (string(now.Suspension.Cause) != now.reason("Suspended") || now.Suspension.Since.IsZero())
	},
	"Suspended without a known reason": func(_, now *record) bool {
		if !now.is("Suspended") {
			return now.reason("Suspended") != "NotSuspended"
		}
		return !slices.Contains([]string{"ByUser", "Unused", "Expired"}, now.reason("Suspended"))
	},
	"asleep for another reason than that nobody uses it": func(_, now *record) bool {
		return now.in("Sleeping") && now.reason("Suspended") != "Unused" || now.in("Suspended") && now.reason("Suspended") == "Unused"
	},
	"pods of a suspension without one": func(_, now *record) bool {
		return !now.is("Suspended") && slices.Contains([]string{"SandboxPodScalingDown", "SandboxPodDeleted"}, now.reason("Ready"))
	},
	"pods that start although suspended": func(_, now *record) bool {
		return now.is("Suspended") && slices.Contains([]string{"SandboxPodInitializing", "SandboxPodNotReady", "SandboxPodReady"}, now.reason("Ready"))
	},
	"a reason of Ready that its status does not have": func(_, now *record) bool {
		good := []string{"SandboxPodReady", "ResourcesReady"}
		if now.reason("Applied") != "" {
			good = []string{"WorkloadsReady"}
		}
		return now.is("Ready") != slices.Contains(good, now.reason("Ready"))
	},
	"deleting and not deleted": func(_, now *record) bool { return now.in("Deleting") && !now.deleting },
	"a message that is empty, long or not text": func(_, now *record) bool {
		return slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool {
			return c.Message == "" || len(c.Message) > 1024 || slices.ContainsFunc([]rune(c.Message), unicode.IsControl)
		})
	},
	"a generation that is still to come": func(_, now *record) bool {
		return now.ObservedGeneration > now.generation ||
			slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool { return c.ObservedGeneration != now.ObservedGeneration })
	},
	"a generation that goes back": func(before, now *record) bool {
		return before != nil && now.ObservedGeneration < before.ObservedGeneration
	},
	"a time that goes back": func(before, now *record) bool {
		return anyCondition(before, now, func(b, n metav1.Condition) bool { return n.LastTransitionTime.Before(&b.LastTransitionTime) })
	},
	"a transition without a change": func(before, now *record) bool {
		return anyCondition(before, now, func(b, n metav1.Condition) bool {
			return b.Status == n.Status && !n.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
	},
	"a suspension that begins again": func(before, now *record) bool {
		return before != nil && before.Suspension != nil && now.Suspension != nil && !now.Suspension.Since.Equal(&before.Suspension.Since)
	},
}

// TestTheRecorderNoticesWhatIsImpossible: of each statement a status that breaks it.
func TestTheRecorderNoticesWhatIsImpossible(t *testing.T) {
	calm(t)
	early, late := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	c := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "m", ObservedGeneration: 1, LastTransitionTime: late}
	}
	ready := func() *record {
		return &record{phase: "Ready", generation: 1, InstanceStatus: sandbarv1alpha1.InstanceStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{
			c("Placed", "True", "Placed"), c("Composed", "True", "Composed"), c("Suspended", "False", "NotSuspended"), c("Ready", "True", "SandboxPodReady"),
		}}}
	}
	suspended := func() *record {
		r := ready()
		r.phase = "Suspended"
		r.Conditions[2], r.Conditions[3] = c("Suspended", "True", "ByUser"), c("Ready", "False", "SandboxPodDeleted")
		r.Suspension = &sandbarv1alpha1.InstanceSuspension{Since: late, Cause: "ByUser"}
		return r
	}
	workloads := ready()
	workloads.Conditions = []metav1.Condition{
		c("Applied", "True", "ApplySucceeded"), c("Rendered", "True", "Rendered"), c("Attached", "True", "NoRouting"), c("Suspended", "False", "NotSuspended"), c("Ready", "True", "WorkloadsReady"),
	}
	for _, good := range []*record{ready(), suspended(), workloads} {
		for name, is := range impossible {
			if is(nil, good) || is(good, good) {
				t.Errorf("%s: %+v is fine", name, good)
			}
		}
	}
	tested := map[string]bool{}
	for name, test := range map[string]struct {
		of            func() *record
		before, after func(*record)
	}{
		"a condition is missing or twice":                    {ready, nil, func(r *record) { r.Conditions = r.Conditions[1:] }},
		"a phase that there is not":                          {ready, nil, func(r *record) { r.phase = "Odd" }},
		"ready and suspended":                                {suspended, nil, func(r *record) { r.Conditions[3].Status = "True" }},
		"ready, and something before it is not":              {ready, nil, func(r *record) { r.Conditions[1].Status = "False" }},
		"composed and not placed":                            {ready, nil, func(r *record) { r.Conditions[0].Status = "False" }},
		"Ready and the phase differ":                         {ready, nil, func(r *record) { r.phase = "Degraded" }},
		"Suspended and the phase differ":                     {ready, nil, func(r *record) { r.phase = "Sleeping" }},
		"suspended, and the phase speaks of running":         {suspended, nil, func(r *record) { r.phase = "Waking" }},
		"Suspended and the suspension differ":                {suspended, nil, func(r *record) { r.Suspension = nil }},
		"Suspended without a known reason":                   {suspended, nil, func(r *record) { r.Conditions[2].Reason = "Because" }},
		"asleep for another reason than that nobody uses it": {suspended, nil, func(r *record) { r.phase = "Sleeping" }},
		"pods of a suspension without one":                   {ready, nil, func(r *record) { r.Conditions[3].Reason = "SandboxPodDeleted" }},
		"pods that start although suspended":                 {suspended, nil, func(r *record) { r.Conditions[3].Reason = "SandboxPodNotReady" }},
		"a reason of Ready that its status does not have":    {ready, nil, func(r *record) { r.Conditions[3].Reason = "NotComposed" }},
		"deleting and not deleted":                           {ready, nil, func(r *record) { r.phase = "Deleting" }},
		"a message that is empty, long or not text":          {ready, nil, func(r *record) { r.Conditions[1].Message = "\x1b[2J" }},
		"a generation that is still to come":                 {ready, nil, func(r *record) { r.ObservedGeneration = 2 }},
		"a generation that goes back":                        {ready, func(r *record) { r.ObservedGeneration = 2 }, nil},
		"a time that goes back":                              {ready, nil, func(r *record) { r.Conditions[3].LastTransitionTime = early }},
		"a transition without a change":                      {ready, func(r *record) { r.Conditions[3].LastTransitionTime = early }, nil},
		"a suspension that begins again":                     {suspended, func(r *record) { r.Suspension.Since = early }, nil},
	} {
		before, now := test.of(), test.of()
		if test.before != nil {
			test.before(before)
		}
		if test.after != nil {
			test.after(now)
		}
		if is, ok := impossible[name]; !ok || !is(before, now) {
			t.Errorf("%q is not noticed", name)
		}
		tested[name] = true
	}
	for name := range impossible {
		if !tested[name] {
			t.Errorf("%q has no status that breaks it", name)
		}
	}
}
