// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// Reasons of the conditions, beside those of a SandboxTemplate.
const (
	reasonAvailable  = "Available"
	reasonEmpty      = "Empty"
	reasonStarting   = "Starting"
	reasonInvalid    = "Invalid"
	reasonPaused     = "Paused"
	reasonFailing    = "ReplicasFailing"
	reasonQuota      = "QuotaExceeded"
	reasonNoRoom     = "NoNodeHasRoom"
	reasonLimit      = "ProviderLimit"
	reasonNotLimited = "NotLimited"
	reasonScalingUp  = "ScalingUp"
	reasonScaledDown = "ScalingDown"
	reasonUpdating   = "Updating"
	reasonSettled    = "Settled"
)

func conditionsOf(o found, s parted, status *sandbarv1alpha1.SandboxSetStatus, now time.Time) []metav1.Condition {
	return []metav1.Condition{
		validOf(o), availableOf(o, status), limitedOf(o, s, status, now), progressingOf(o, s),
	}
}

func condition(name string, is bool, reason, format string, args ...any) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: outcome.Shortened(fmt.Sprintf(format, args...), outcome.MaxMessage)}
}

func validOf(o found) metav1.Condition {
	if o.invalid != nil {
		return condition(sandbarv1alpha1.SandboxSetValid, false, cmp.Or(o.invalid.Reason, reasonInvalid), "%s", o.invalid.Message)
	}
	if o.patchRefused != nil {
		return condition(sandbarv1alpha1.SandboxSetValid, false, o.patchRefused.Reason, "%s; the set goes on with its former patch", o.patchRefused.Message)
	}
	return condition(sandbarv1alpha1.SandboxSetValid, true, sandbarv1alpha1.TemplateValidReason, "sandboxes can be made of the template")
}

func availableOf(o found, status *sandbarv1alpha1.SandboxSetStatus) metav1.Condition {
	n := status.AvailableReplicas
	switch {
	case n > 0:
		return condition(sandbarv1alpha1.SandboxSetAvailable, true, reasonAvailable, "%d can be taken now; the set is to have %d", n, o.wishes.replicas)
	case o.invalid != nil && status.Replicas > 0:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonInvalid, "a Sandbox can take none of the %d that are there; see the condition Valid", status.Replicas)
	case o.invalid != nil:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonInvalid, "no sandbox can be made; see the condition Valid")
	case o.wishes.paused:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonPaused, "the set is paused, and has none left")
	case status.Replicas > 0 || o.plan.create > 0:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonStarting, "none of %d is ready yet", o.wishes.replicas)
	}
	return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonEmpty, "there is none")
}

func limitedOf(o found, s parted, status *sandbarv1alpha1.SandboxSetStatus, now time.Time) metav1.Condition {
	name := sandbarv1alpha1.SandboxSetScalingLimited
	failing := only(s.updated, isFailing(now))
	waiting := only(s.updated, func(m members.Member) bool { return m.Trouble.Waits })
	switch {
	case o.invalid != nil && int(status.Replicas) < o.wishes.replicas:
		return condition(name, true, reasonInvalid, "no sandbox can be made; see the condition Valid")
	case o.invalid != nil && s.available < o.wishes.replicas:
		return condition(name, true, reasonInvalid, "%d of %d can be taken, and no other can be made; see the condition Valid", s.available, o.wishes.replicas)
	case o.limited != nil:
		return condition(name, true, reasonQuota, "%s", o.limited.Message)
	case len(failing) > 0 && o.plan.blocked:
		return condition(name, true, reasonFailing, "%d do not come up, and no more are made meanwhile: %s", len(failing), describe(failing[0]))
	case len(failing) > 0:
		return condition(name, true, reasonFailing, "%d of %d do not come up: %s", len(failing), o.wishes.replicas, describe(failing[0]))
	case len(waiting) > 0:
		reason := reasonNoRoom
		if waiting[0].Trouble.Reason == outcome.ReasonQuota {
			reason = reasonQuota
		}
		return condition(name, true, reason, "%d of %d wait for room, and keep their place: %s", len(waiting), o.wishes.replicas, waiting[0].Trouble.Message)
	case o.wishes.bounded:
		return condition(name, true, reasonLimit, "the operator allows a set %d (spec.limits.setReplicas)", o.most)
	case o.wishes.paused:
		return condition(name, false, reasonNotLimited, "the set is paused")
	case s.available < o.wishes.replicas:
		return condition(name, false, reasonNotLimited, "%d of %d can be taken, and nothing keeps the set from making the others", s.available, o.wishes.replicas)
	}
	return condition(name, false, reasonNotLimited, "the set has as many as it is to have")
}

func progressingOf(o found, s parted) metav1.Condition {
	name := sandbarv1alpha1.SandboxSetProgressing
	unready := len(s.updated) - count(s.updated, available)
	switch {
	case o.wishes.paused:
		return condition(name, false, reasonPaused, "the set is paused")
	case o.invalid != nil && len(o.plan.remove)+len(s.leaving) == 0:
		return condition(name, false, reasonInvalid, "what there is stays, and nothing is made; see the condition Valid")
	case len(s.outdated) > 0 && o.invalid == nil:
		return condition(name, true, reasonUpdating, "%d are of a former revision, or too old, and are replaced", len(s.outdated))
	case o.invalid == nil && (o.plan.create > 0 || unready > 0):
		return condition(name, true, reasonScalingUp, "%d of %d are ready", len(s.updated)-unready, o.wishes.replicas)
	case len(o.plan.remove) > 0 || len(s.leaving) > 0:
		return condition(name, true, reasonScaledDown, "%d are being removed", max(len(o.plan.remove), len(s.leaving)))
	}
	return condition(name, false, reasonSettled, "there is nothing to do")
}
