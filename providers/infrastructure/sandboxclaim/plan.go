// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// Reasons of the conditions.
const (
	reasonClaimed     = "Claimed"
	reasonClaiming    = "Claiming"
	reasonNameTaken   = "NameTaken"
	reasonReady       = "AllReady"
	reasonNotReady    = "NotReady"
	reasonGone        = "SandboxesGone"
	reasonInTime      = "InTime"
	reasonNoMember    = "NoWarmMember"
	reasonColdSlow    = "ColdStartSlow"
	reasonNoRoom      = "QuotaExceeded"
	reasonCannotStart = "SandboxFailed"
	reasonKeyInvalid  = "IdempotencyKeyInvalid"
	reasonKeyReused   = "IdempotencyKeyReused"
	reasonNothing     = "NothingClaimed"
)

// maxNamed is how many Sandboxes a message names.
const maxNamed = 3

// sandbox is a Sandbox of a claim.
type sandbox struct {
	name, uid string
	status    sandbarv1alpha1.InstanceStatus
	// going is set while it is being deleted.
	going bool
}

func (s sandbox) ready() bool {
	return !s.going && meta.IsStatusConditionTrue(s.status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
}

// found is what one look at a claim has found.
type found struct {
	own   []sandbox
	taken []string // names of the claim's that others have
	now   time.Time
}

// plan is what to do for a claim now.
type plan struct {
	create []string  // names
	remove []sandbox // Sandboxes
	// expire: the claim has failed, and its time is over.
	expire bool
	// again is when to look again although nothing happens; zero: never.
	again time.Duration
	phase sandbarv1alpha1.SandboxClaimPhase
}

// names are those of the Sandboxes that a claim wants.
func names(claim *sandbarv1alpha1.SandboxClaim) []string {
	if claim.Spec.Replicas <= 1 {
		return []string{claim.Name}
	}
	all := make([]string, claim.Spec.Replicas)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", claim.Name, i)
	}
	return all
}

func deadline(claim *sandbarv1alpha1.SandboxClaim) time.Time {
	timeout, _ := time.ParseDuration(claim.Spec.ClaimTimeout) // the schema admits nothing else
	return claim.CreationTimestamp.Add(timeout)
}

// planFor says what to do for a claim. What is decided stays: one that was bound, or has failed, creates nothing more.
func planFor(claim *sandbarv1alpha1.SandboxClaim, f found) plan {
	p := plan{phase: claim.Status.Phase}
	if p.phase == "" {
		p.phase = sandbarv1alpha1.ClaimClaiming
	}
	if p.phase == sandbarv1alpha1.ClaimClaiming {
		left := deadline(claim).Sub(f.now)
		switch {
		case countReady(f.own) == len(names(claim)):
			p.phase = sandbarv1alpha1.ClaimBound
		case left <= 0:
			p.phase = sandbarv1alpha1.ClaimFailed
		default:
			p.create, p.again = missing(claim, f), left
		}
	}
	if p.phase != sandbarv1alpha1.ClaimFailed {
		return p
	}
	for _, s := range f.own {
		if !s.going && (claim.Spec.AllOrNothing || !s.ready()) {
			p.remove = append(p.remove, s)
		}
	}
	p.expire, p.again = expiry(claim, f.now)
	return p
}

// missing are the names for which there is no Sandbox, and nobody else has one.
func missing(claim *sandbarv1alpha1.SandboxClaim, f found) (create []string) {
	have := map[string]bool{}
	for _, s := range f.own {
		have[s.name] = true
	}
	for _, name := range f.taken {
		have[name] = true
	}
	for _, name := range names(claim) {
		if !have[name] {
			create = append(create, name)
		}
	}
	return create
}

// expiry reports whether the time of a claim that has failed is over, and if not, when it will be.
func expiry(claim *sandbarv1alpha1.SandboxClaim, now time.Time) (over bool, left time.Duration) {
	kept, _ := time.ParseDuration(claim.Spec.TTLAfterFinished) // the schema admits nothing else
	since := now
	if claim.Status.CompletionTime != nil {
		since = claim.Status.CompletionTime.Time
	}
	left = since.Add(kept).Sub(now)
	return claim.Status.CompletionTime != nil && left <= 0, max(left, 0)
}

func countReady(own []sandbox) (n int) {
	for _, s := range own {
		if s.ready() {
			n++
		}
	}
	return n
}

// statusFor is what to say of a claim.
func statusFor(claim *sandbarv1alpha1.SandboxClaim, f found, p plan) *sandbarv1alpha1.SandboxClaimStatus {
	status := claim.Status.DeepCopy()
	if refusedByKey(status) {
		return status // why it was refused stays
	}
	status.ObservedGeneration, status.Phase = claim.Generation, p.phase
	status.Sandboxes, status.ClaimedReplicas = nil, 0
	for _, s := range f.own {
		if s.going {
			continue
		}
		status.ClaimedReplicas++
		row := sandbarv1alpha1.SandboxClaimSandbox{Name: s.name, UID: s.uid, Ready: s.ready()}
		if s.status.Start != nil {
			row.Start = s.status.Start.Type
		}
		if s.status.DataPlane != nil {
			row.URL = s.status.DataPlane.URL
		}
		status.Sandboxes = append(status.Sandboxes, row)
	}
	status.ReadyReplicas = int32(countReady(f.own))
	if p.phase != sandbarv1alpha1.ClaimClaiming && status.CompletionTime == nil {
		status.CompletionTime = new(metav1.NewTime(f.now.Truncate(time.Second)))
	}
	for _, c := range []metav1.Condition{claimedOf(claim, f, status), readyOf(claim, f, status), timedOutOf(claim, f, p)} {
		if c.Type == sandbarv1alpha1.ClaimTimedOutCondition && meta.IsStatusConditionTrue(status.Conditions, c.Type) {
			continue // why it failed does not change by what was deleted since
		}
		c.ObservedGeneration, c.LastTransitionTime = claim.Generation, metav1.NewTime(f.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func condition(name string, is bool, reason, format string, args ...any) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: outcome.Shortened(fmt.Sprintf(format, args...), outcome.MaxMessage)}
}

func claimedOf(claim *sandbarv1alpha1.SandboxClaim, f found, status *sandbarv1alpha1.SandboxClaimStatus) metav1.Condition {
	name, wanted := sandbarv1alpha1.ClaimClaimedCondition, len(names(claim))
	switch {
	case len(f.taken) > 0 && status.Phase == sandbarv1alpha1.ClaimClaiming:
		return condition(name, false, reasonNameTaken, "there is a Sandbox %s that is not this claim's; delete it, or give the claim another name", f.taken[0])
	case int(status.ClaimedReplicas) == wanted:
		return condition(name, true, reasonClaimed, "the claim has its %d Sandboxes", wanted)
	case status.Phase == sandbarv1alpha1.ClaimClaiming:
		return condition(name, false, reasonClaiming, "%d of %d Sandboxes are there", status.ClaimedReplicas, wanted)
	}
	return condition(name, false, reasonGone, "%d of %d Sandboxes are there, and no others are made", status.ClaimedReplicas, wanted)
}

func readyOf(claim *sandbarv1alpha1.SandboxClaim, f found, status *sandbarv1alpha1.SandboxClaimStatus) metav1.Condition {
	wanted := len(names(claim))
	if int(status.ReadyReplicas) == wanted {
		return condition(sandbarv1alpha1.ClaimReadyCondition, true, reasonReady, "all %d Sandboxes are Ready", wanted)
	}
	_, why := waitsFor(f)
	return condition(sandbarv1alpha1.ClaimReadyCondition, false, reasonNotReady, "%d of %d Sandboxes are Ready%s", status.ReadyReplicas, wanted, why)
}

func timedOutOf(claim *sandbarv1alpha1.SandboxClaim, f found, p plan) metav1.Condition {
	name := sandbarv1alpha1.ClaimTimedOutCondition
	if p.phase != sandbarv1alpha1.ClaimFailed {
		return condition(name, false, reasonInTime, "the claim has until %s", deadline(claim).UTC().Format(time.RFC3339))
	}
	reason, why := waitsFor(f)
	return condition(name, true, reason, "%d of %d Sandboxes were Ready within spec.claimTimeout (%s)%s", countReady(f.own), len(names(claim)), claim.Spec.ClaimTimeout, why)
}

// waitsFor is why Sandboxes are not Ready: the reason of the first, and the words of some.
func waitsFor(f found) (reason, why string) {
	var words []string
	for _, s := range f.own {
		if s.ready() || s.going {
			continue
		}
		if reason == "" {
			reason = reasonOf(s)
		}
		if c := meta.FindStatusCondition(s.status.Conditions, sandbarv1alpha1.InstanceReadyCondition); c != nil && len(words) < maxNamed {
			words = append(words, s.name+": "+c.Message)
		}
	}
	switch {
	case reason == "" && len(f.taken) > 0:
		reason = reasonNameTaken
	case reason == "":
		reason = reasonColdSlow
	}
	if len(words) == 0 {
		return reason, ""
	}
	return reason, "; " + strings.Join(words, "; ")
}

// byPhase are why a claim has timed out, by the phases of Sandboxes that are not Ready; all others are slow.
var byPhase = map[sandbarv1alpha1.InstancePhase]string{
	sandbarv1alpha1.InstancePendingCapacity: reasonNoRoom,
	sandbarv1alpha1.InstanceFailed:          reasonCannotStart,
	sandbarv1alpha1.InstancePending:         reasonNoMember,
}

func reasonOf(s sandbox) string {
	if start := s.status.Start; start != nil && start.Reason == sandbarv1alpha1.StartResizeInfeasible {
		return start.Reason // it is late because it had to start cold
	}
	return cmp.Or(byPhase[s.status.Phase], reasonColdSlow)
}

// byName puts Sandboxes into the order of their numbers.
func byName(a, b sandbox) int {
	return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
}
