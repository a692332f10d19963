// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Reasons of the other conditions, beside those that the part has.
const (
	reasonPending   = "ResourcesPending"
	reasonRendered  = "Rendered"
	reasonNoRouting = "NoRouting"
	reasonReady     = "WorkloadsReady"
)

// Look is what one look at a compound instance has found.
type Look struct {
	// Object is the instance, and Old its status as it was read.
	Object *unstructured.Unstructured
	Old    sandbarv1alpha1.InstanceStatus
	// Kind is that of the part, From the field of the instance's spec with the workloads, To that of the part's.
	Kind, From, To string
	Applied
	// Unseen: nobody knows whether there is a part, and how it is. What was told of the workloads stays.
	Unseen bool
	// Suspended says why the instance is to have no pods; empty if it is to have some.
	Suspended sandbarv1alpha1.SuspensionCause
	// Deleting says what a deletion waits for; empty while the instance is not being deleted.
	Deleting string
	// DataPlane is where the verbs of the workloads are served; nil for nowhere.
	DataPlane *sandbarv1alpha1.InstanceDataPlane
	Now       time.Time
}

// LookAt is a look that has found nothing yet.
func LookAt(obj *unstructured.Unstructured, old sandbarv1alpha1.InstanceStatus, words *scope.CompoundWords, now time.Time) Look {
	return Look{Object: obj, Old: old, Kind: words.Part.GVK.Kind, From: words.Fields.From, To: words.To, Now: now}
}

// told is what the part's status says.
type told struct {
	sandbarv1alpha1.InstanceStatus
	sandbarv1alpha1.SandboxGroupStatus

	// current: it speaks of the part's spec as it is now.
	current bool
}

func toldBy(part *unstructured.Unstructured) (t told, err error) {
	if part == nil {
		return t, nil
	}
	fields, _ := part.Object["status"].(map[string]any)
	if t.InstanceStatus, err = outcome.StatusOf(fields); err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &t.SandboxGroupStatus)
	}
	if err != nil {
		return t, fmt.Errorf("reading the status of the part: %w", err)
	}
	t.current = part.GetDeletionTimestamp() == nil && t.ObservedGeneration == part.GetGeneration()
	return t, nil
}

// condition is a condition of the part's; one without a status if it has none.
func (t told) condition(name string) metav1.Condition {
	if c := meta.FindStatusCondition(t.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{Type: name}
}

// false reports whether the part says of a condition that it is not so.
func (t told) isFalse(name string) (c metav1.Condition, is bool) {
	c = t.condition(name)
	return c, t.current && c.Status == metav1.ConditionFalse
}

// RollUp is the whole status of a compound instance.
func RollUp(l Look) (map[string]any, error) {
	t, err := toldBy(l.Part)
	if err != nil {
		return nil, err
	}
	v := judge(l, t)
	status := sandbarv1alpha1.InstanceStatus{
		ObservedGeneration: l.Object.GetGeneration(),
		Phase:              phase(l, t, v),
		Activity:           t.Activity,
		DataPlane:          l.DataPlane,
		Suspension:         suspension(l, t),
		Conditions:         v.conditions(l),
	}
	if l.Unseen {
		status.Activity = l.Old.Activity
	}
	if name := l.Object.GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]; name != "" {
		status.CreatedBy = &sandbarv1alpha1.InstanceCreator{Username: name}
	}
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	rolled, err := rolledUp(l, t)
	if err != nil {
		return nil, err
	}
	more, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rolled)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the workloads: %w", err)
	}
	maps.Copy(own, more)
	return own, nil
}

// rolledUp is what there is of the workloads. What the part does not tell now stays as it has told it last.
func rolledUp(l Look, t told) (status sandbarv1alpha1.SandboxWorkloadsStatus, err error) {
	if l.Unseen {
		fields, _ := l.Object.Object["status"].(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return status, fmt.Errorf("reading the status of the workloads: %w", err)
		}
		return status, nil
	}
	if l.Part != nil {
		status.UnderlyingRefs = &sandbarv1alpha1.SandboxUnderlyingRefs{SandboxGroupName: l.Part.GetName()}
	}
	if t.SandboxID != "" {
		status.RoutingKey = &sandbarv1alpha1.RoutingKey{HeaderName: sandbarv1alpha1.DefaultRoutingHeader, Value: t.SandboxID}
	}
	for _, name := range workloads(l) {
		row := sandbarv1alpha1.SandboxWorkloadStatus{Name: name}
		if c := t.component(name); c != nil {
			row.Ready, row.Replicas, row.Image = c.Ready, c.Replicas, c.Image
		}
		status.Workloads = append(status.Workloads, row)
	}
	return status, nil
}

func (t told) component(name string) *sandbarv1alpha1.SandboxGroupComponentStatus {
	at := slices.IndexFunc(t.Components, func(c sandbarv1alpha1.SandboxGroupComponentStatus) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &t.Components[at]
}

// workloads are the names of those that the spec has.
func workloads(l Look) []string { return scope.NamesIn(l.Object, l.From) }

// verdicts are those of all conditions, in their order.
type verdicts struct {
	applied, rendered, attached, suspended, ready Verdict
}

func (v verdicts) conditions(l Look) (conditions []metav1.Condition) {
	for _, c := range []struct {
		name string
		Verdict
	}{
		{sandbarv1alpha1.SandboxApplied, v.applied},
		{sandbarv1alpha1.SandboxRendered, v.rendered},
		{sandbarv1alpha1.SandboxAttached, v.attached},
		{sandbarv1alpha1.InstanceSuspendedCondition, v.suspended},
		{sandbarv1alpha1.InstanceReadyCondition, v.ready},
	} {
		if before := meta.FindStatusCondition(l.Old.Conditions, c.name); before != nil {
			conditions = append(conditions, *before)
		}
		now := metav1.Condition{
			Type: c.name, Status: metav1.ConditionFalse, Reason: c.Reason, Message: outcome.Shortened(outcome.OneLine(c.Message), outcome.MaxMessage),
			ObservedGeneration: l.Object.GetGeneration(), LastTransitionTime: metav1.NewTime(l.Now),
		}
		if c.OK {
			now.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&conditions, now)
	}
	return conditions
}

func judge(l Look, t told) verdicts {
	v := verdicts{
		applied: applied(l, t), rendered: rendered(l, t), suspended: suspended(l),
		attached: Verdict{OK: true, Reason: reasonNoRouting, Message: "no requests are routed to the workloads: they are reached by their Services"},
	}
	v.ready = ready(l, t, v)
	return v
}

// applied reports whether the part says what the spec says, and whether it may. The part alone knows its Baseline.
func applied(l Look, t told) Verdict {
	c, refused := t.isFalse(sandbarv1alpha1.InstanceComposed)
	switch {
	case l.Deleting != "":
		return Verdict{Reason: outcome.ReasonDeleting, Message: l.Deleting}
	case !l.OK || !refused:
		return l.Verdict
	case c.Reason == outcome.ReasonBaselineNotFound:
		return Verdict{Reason: reasonNotAllowed, Message: c.Message}
	case c.Reason == outcome.ReasonSpecRefused:
		return Verdict{Reason: ReasonInvalidSpec, Message: strings.ReplaceAll(c.Message, "spec."+l.To, "spec."+l.From)}
	}
	return l.Verdict
}

// rendered tells how far the copies are. What is wrong with one is told with its name.
func rendered(l Look, t told) Verdict {
	switch {
	case l.Deleting != "":
		return Verdict{Reason: outcome.ReasonDeleting, Message: l.Deleting}
	case l.Unseen:
		return Verdict{Reason: reasonPending, Message: l.Message}
	case l.Part == nil:
		return Verdict{Reason: reasonPending, Message: fmt.Sprintf("there is no %s yet", l.Kind)}
	case !t.current:
		return Verdict{Reason: reasonPending, Message: fmt.Sprintf("the provider has not looked at the %s since it was changed", l.Kind)}
	}
	if refused := refusedWorkloads(l, t); refused.Reason != "" {
		return refused
	}
	for _, name := range []string{sandbarv1alpha1.InstancePlaced, sandbarv1alpha1.InstanceComposed, sandbarv1alpha1.InstanceReadyCondition} {
		if name != sandbarv1alpha1.InstancePlaced && l.Suspended != "" {
			return Verdict{OK: true, Reason: reasonRendered, Message: "all workloads are rendered, and have no pods"}
		}
		c, is := t.isFalse(name)
		switch {
		case is && slices.Contains([]string{outcome.ReasonComposing, outcome.ReasonWaiting}, c.Reason):
			return Verdict{Reason: reasonPending, Message: namingUnready(t, c.Message)}
		case is:
			return Verdict{Reason: c.Reason, Message: namingUnready(t, c.Message)}
		case c.Status == "":
			return Verdict{Reason: reasonPending, Message: fmt.Sprintf("the %s has no condition %s yet", l.Kind, name)}
		}
	}
	return Verdict{OK: true, Reason: reasonRendered, Message: "all workloads are rendered and ready"}
}

// refusedWorkloads tells of the workloads of which no copy can be made, with the reason of the first.
func refusedWorkloads(l Look, t told) (v Verdict) {
	var texts []string
	for _, name := range workloads(l) {
		row := t.component(name)
		if row == nil {
			continue
		}
		for _, condition := range []string{sandbarv1alpha1.ComponentSourceResolved, sandbarv1alpha1.ComponentRendered} {
			if c := meta.FindStatusCondition(row.Conditions, condition); c != nil && c.Status == metav1.ConditionFalse {
				if v.Reason == "" {
					v.Reason = c.Reason
				}
				texts = append(texts, fmt.Sprintf("workload %s: %s", name, c.Message))
				break
			}
		}
	}
	v.Message = strings.Join(texts, "; ")
	return v
}

// namingUnready puts the names of the workloads that are not ready before a message about them.
func namingUnready(t told, message string) string {
	var names []string
	for i := range t.Components {
		if !t.Components[i].Ready {
			names = append(names, t.Components[i].Name)
		}
	}
	switch len(names) {
	case 0:
		return message
	case 1:
		return "workload " + names[0] + ": " + message
	}
	return "workloads " + strings.Join(names, ", ") + ": " + message
}

func suspended(l Look) Verdict {
	if l.Suspended == "" {
		return Verdict{Reason: outcome.ReasonNotSuspended, Message: "the instance is meant to run"}
	}
	return Verdict{OK: true, Reason: string(l.Suspended), Message: outcome.SuspensionMessages[l.Suspended]}
}

// ready is the first of the others that is not as it has to be.
func ready(l Look, t told, v verdicts) Verdict {
	for _, one := range []Verdict{v.applied, v.rendered, v.attached} {
		if !one.OK {
			return one
		}
	}
	if l.Suspended != "" {
		if c, is := t.isFalse(sandbarv1alpha1.InstanceReadyCondition); is && t.Suspension != nil {
			return Verdict{Reason: c.Reason, Message: c.Message}
		}
		return Verdict{Reason: outcome.ReasonPodScalingDown, Message: "the pods are being released"}
	}
	return Verdict{OK: true, Reason: reasonReady, Message: "all workloads can be used"}
}

// suspension describes the suspension; nil while there is none.
func suspension(l Look, t told) *sandbarv1alpha1.InstanceSuspension {
	if l.Suspended == "" {
		return nil
	}
	is := &sandbarv1alpha1.InstanceSuspension{Since: metav1.NewTime(l.Now), Cause: l.Suspended}
	if l.Old.Suspension != nil {
		is.Since, is.Kept = l.Old.Suspension.Since, l.Old.Suspension.Kept
	}
	if t.Suspension != nil {
		is.Kept = t.Suspension.Kept
	}
	return is
}
