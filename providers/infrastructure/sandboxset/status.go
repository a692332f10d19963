// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
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
	reasonLimit      = "ProviderLimit"
	reasonNotLimited = "NotLimited"
	reasonScalingUp  = "ScalingUp"
	reasonScaledDown = "ScalingDown"
	reasonUpdating   = "Updating"
	reasonSettled    = "Settled"
)

// maxProblems bounds status.problems.
const maxProblems = 8

// found is what one look at a set has found.
type found struct {
	members []instance.Member
	wishes  wishes
	plan    plan
	// most is how many members the operator allows one set.
	most int32
	// invalid is why no members can be made, limited why no more.
	invalid *outcome.RefusalError
	limited *outcome.FullError
}

// report writes the status, if it is another one, and no more often than statusEvery. It returns when to look
// again because of that.
func (r *reconciler) report(ctx context.Context, key export.Key, set *sandbarv1alpha1.SandboxSet, o found) (time.Duration, error) {
	now := r.now()
	claims := r.members.TakeClaims(set.UID)
	status := buildStatus(set, o, claims, now)
	if equality.Semantic.DeepEqual(*status, set.Status) {
		return 0, nil
	}
	r.mu.Lock()
	wait := statusEvery - now.Sub(r.written[key])
	r.mu.Unlock()
	if wait > 0 {
		r.members.ReturnClaims(set.UID, claims)
		return wait, nil
	}
	data, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data, "status")
	}
	if export.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		r.members.ReturnClaims(set.UID, claims)
		return 0, fmt.Errorf("writing the status of SandboxSet %s: %w", key.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.written) >= maxStatuses {
		clear(r.written)
	}
	r.written[key] = now
	return 0, nil
}

func buildStatus(set *sandbarv1alpha1.SandboxSet, o found, claims instance.Claims, now time.Time) *sandbarv1alpha1.SandboxSetStatus {
	s, _ := sorted(o.wishes, o.members, now)
	alive := slices.Concat(s.outdated, s.updated)
	status := set.Status.DeepCopy()
	status.ObservedGeneration = set.Generation
	status.Revision, status.Template = o.wishes.revision, setOf(export.Key{}, set).Template.Name
	status.Replicas = int32(len(alive))
	status.UpdatedReplicas = int32(len(s.updated))
	status.AvailableReplicas = int32(count(alive, available))
	fails := isFailing(now)
	status.FailingReplicas = int32(count(alive, fails))
	status.Problems = problems(slices.DeleteFunc(alive, func(m instance.Member) bool { return !fails(m) }))
	if claims.Count > 0 {
		status.Claimed.Total += claims.Count
		status.Claimed.LastTime = &metav1.Time{Time: claims.Last}
	}
	for _, c := range conditionsOf(o, s, status) {
		c.ObservedGeneration = set.Generation
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func conditionsOf(o found, s members, status *sandbarv1alpha1.SandboxSetStatus) []metav1.Condition {
	return []metav1.Condition{
		validOf(o), availableOf(o, status), limitedOf(o, status), progressingOf(o, s),
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
	return condition(sandbarv1alpha1.SandboxSetValid, true, sandbarv1alpha1.TemplateValidReason, "sandboxes can be made of the template")
}

func availableOf(o found, status *sandbarv1alpha1.SandboxSetStatus) metav1.Condition {
	n := status.AvailableReplicas
	switch {
	case n > 0:
		return condition(sandbarv1alpha1.SandboxSetAvailable, true, reasonAvailable, "%d of %d can be taken now", n, o.wishes.replicas)
	case o.invalid != nil:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonInvalid, "no sandbox can be made; see the condition Valid")
	case o.wishes.paused:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonPaused, "the set is paused, and has none left")
	case status.Replicas > 0 || o.plan.create > 0:
		return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonStarting, "none of %d is ready yet", o.wishes.replicas)
	}
	return condition(sandbarv1alpha1.SandboxSetAvailable, false, reasonEmpty, "there is none")
}

func limitedOf(o found, status *sandbarv1alpha1.SandboxSetStatus) metav1.Condition {
	name := sandbarv1alpha1.SandboxSetScalingLimited
	switch {
	case o.invalid != nil && int(status.Replicas) < o.wishes.replicas:
		return condition(name, true, reasonInvalid, "no sandbox can be made; see the condition Valid")
	case o.limited != nil:
		return condition(name, true, reasonQuota, "%s", o.limited.Message)
	case o.plan.blocked:
		why := ""
		if len(status.Problems) > 0 {
			why = ": " + status.Problems[0].Reason + ": " + status.Problems[0].Message
		}
		return condition(name, true, reasonFailing, "%d do not come up, and no more are made meanwhile%s", status.FailingReplicas, why)
	case o.wishes.bounded:
		return condition(name, true, reasonLimit, "the operator allows a set %d (spec.limits.setReplicas)", o.most)
	}
	return condition(name, false, reasonNotLimited, "nothing keeps the set from having as many as it should")
}

func progressingOf(o found, s members) metav1.Condition {
	name := sandbarv1alpha1.SandboxSetProgressing
	unready := len(s.updated) - count(s.updated, available)
	switch {
	case o.wishes.paused:
		return condition(name, false, reasonPaused, "the set is paused")
	case o.invalid != nil:
		return condition(name, false, reasonInvalid, "what there is stays, and nothing is made; see the condition Valid")
	case len(s.outdated) > 0:
		return condition(name, true, reasonUpdating, "%d are of a former revision, or too old, and are replaced", len(s.outdated))
	case o.plan.create > 0 || unready > 0:
		return condition(name, true, reasonScalingUp, "%d of %d are ready", len(s.updated)-unready, o.wishes.replicas)
	case len(o.plan.remove) > 0 || len(s.leaving) > 0:
		return condition(name, true, reasonScaledDown, "%d are being removed", max(len(o.plan.remove), len(s.leaving)))
	}
	return condition(name, false, reasonSettled, "there is nothing to do")
}

// problems are why members do not come up, the most frequent first.
func problems(failing []instance.Member) []sandbarv1alpha1.SandboxSetProblem {
	counts := map[string]*sandbarv1alpha1.SandboxSetProblem{}
	for _, m := range failing {
		if m.Trouble.Reason == "" {
			m.Trouble.Reason, m.Trouble.Message = reasonStarting, "nothing says why it is not ready"
		}
		if counts[m.Trouble.Reason] == nil {
			counts[m.Trouble.Reason] = &sandbarv1alpha1.SandboxSetProblem{Reason: m.Trouble.Reason, Message: m.Trouble.Message}
		}
		counts[m.Trouble.Reason].Count++
	}
	var all []sandbarv1alpha1.SandboxSetProblem
	for _, problem := range slices.SortedFunc(maps.Values(counts), func(a, b *sandbarv1alpha1.SandboxSetProblem) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	}) {
		all = append(all, *problem)
	}
	return all[:min(len(all), maxProblems)]
}
