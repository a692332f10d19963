// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

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
		switch {
		case c.OK:
			now.Status = metav1.ConditionTrue
		case c.Unknown:
			now.Status = metav1.ConditionUnknown
		}
		meta.SetStatusCondition(&conditions, now)
	}
	return conditions
}

func judge(l Look, t told, r toldOfRoute) verdicts {
	v := verdicts{applied: applied(l, t), rendered: rendered(l, t), attached: attached(l, r), suspended: suspended(l)}
	v.ready = ready(l, t, v)
	return v
}

// applied reports whether the parts say what the spec says, and whether they may. The one with the copies alone knows its Baseline.
func applied(l Look, t told) Verdict {
	if l.Deleting != "" {
		return Verdict{Reason: outcome.ReasonDeleting, Message: l.Deleting}
	}
	if c, refused := t.isFalse(sandbarv1alpha1.InstanceComposed); l.Copies.OK && refused {
		switch c.Reason {
		case outcome.ReasonBaselineNotFound:
			return Verdict{Reason: reasonNotAllowed, Message: c.Message}
		case outcome.ReasonSpecRefused:
			return Verdict{Reason: ReasonInvalidSpec, Message: strings.ReplaceAll(c.Message, "spec."+l.To, "spec."+l.From)}
		}
	}
	switch {
	case l.Copies.OK && l.Route.Reason != "" && !l.Route.OK:
		return l.Route.Verdict
	case l.Copies.OK && l.Route.OK && l.Route.Wanted:
		return Verdict{OK: true, Reason: reasonApplied, Message: fmt.Sprintf("the %s and the %s say what the spec says", l.Copies.Kind, l.Route.Kind)}
	}
	return l.Copies.Verdict
}

// rendered tells how far the copies are. What is wrong with one is told with its name.
func rendered(l Look, t told) Verdict {
	switch {
	case l.Deleting != "":
		return Verdict{Reason: outcome.ReasonDeleting, Message: l.Deleting}
	case l.Copies.Unseen:
		return Verdict{Reason: reasonPending, Message: l.Copies.Message}
	case l.Copies.Part == nil:
		return Verdict{Reason: reasonPending, Message: fmt.Sprintf("there is no %s yet", l.Copies.Kind)}
	case !t.current:
		return Verdict{Reason: reasonPending, Message: fmt.Sprintf("the provider has not looked at the %s since it was changed", l.Copies.Kind)}
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
			return Verdict{Reason: reasonPending, Message: fmt.Sprintf("the %s has no condition %s yet", l.Copies.Kind, name)}
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
			return Verdict{Reason: one.Reason, Message: one.Message}
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
