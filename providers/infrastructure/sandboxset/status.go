// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// maxProblems bounds status.problems.
const maxProblems = 8

// found is what one look at a set has found.
type found struct {
	members []members.Member
	wishes  wishes
	plan    plan
	// most is how many members the operator allows one set.
	most int32
	// invalid is why no members can be made, limited why no more. patchRefused is why the members are made with the
	// former patch, and patched is set if they are made with any that makes a difference.
	invalid, patchRefused *outcome.RefusalError
	patched               bool
	limited               *outcome.FullError
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
	data, err := export.StatusPatch(set.Status, status)
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data, "status")
	}
	if err == nil {
		r.tell(ctx, key, set, status)
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

func buildStatus(set *sandbarv1alpha1.SandboxSet, o found, claims members.Claims, now time.Time) *sandbarv1alpha1.SandboxSetStatus {
	s, _ := sorted(o.wishes, o.members, now)
	alive := slices.Concat(s.outdated, s.updated)
	status := set.Status.DeepCopy()
	status.ObservedGeneration = set.Generation
	status.Revision, status.Template = o.wishes.revision, setOf(export.Key{}, set).Template.Name
	status.Patched = o.patched
	status.Replicas = int32(len(alive))
	status.UpdatedReplicas = int32(len(s.updated))
	status.AvailableReplicas = int32(s.available)
	fails := isFailing(now)
	status.FailingReplicas = int32(count(alive, fails))
	status.Problems = problems(slices.DeleteFunc(alive, func(m members.Member) bool { return !fails(m) && !m.Trouble.Waits }))
	if claims.Count > 0 {
		status.Claimed.Total += claims.Count
		status.Claimed.LastTime = &metav1.Time{Time: claims.Last}
	}
	for _, c := range conditionsOf(o, s, status, now) {
		c.ObservedGeneration = set.Generation
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func only(all []members.Member, is func(members.Member) bool) []members.Member {
	return slices.DeleteFunc(slices.Clone(all), func(m members.Member) bool { return !is(m) })
}

// describe says why a member does not come up.
func describe(m members.Member) string {
	p := problemOf(m)
	return p.Reason + ": " + p.Message
}

func problemOf(m members.Member) sandbarv1alpha1.SandboxSetProblem {
	if m.Trouble.Reason == "" {
		return sandbarv1alpha1.SandboxSetProblem{Reason: reasonStarting, Message: "nothing says why it is not ready"}
	}
	return sandbarv1alpha1.SandboxSetProblem{Reason: m.Trouble.Reason, Message: m.Trouble.Message}
}

// problems are why members do not come up, the most frequent first.
func problems(failing []members.Member) []sandbarv1alpha1.SandboxSetProblem {
	counts := map[string]*sandbarv1alpha1.SandboxSetProblem{}
	for _, m := range failing {
		p := problemOf(m)
		if counts[p.Reason] == nil {
			counts[p.Reason] = &p
		}
		counts[p.Reason].Count++
	}
	var all []sandbarv1alpha1.SandboxSetProblem
	for _, problem := range slices.SortedFunc(maps.Values(counts), func(a, b *sandbarv1alpha1.SandboxSetProblem) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	}) {
		all = append(all, *problem)
	}
	return all[:min(len(all), maxProblems)]
}
