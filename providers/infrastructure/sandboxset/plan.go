// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

const (
	// failingKept is for how long a member that does not come up is kept for a look at it. Then it is replaced
	// by another one, and so on: what was wrong may have been its node's.
	failingKept = 5 * time.Minute
	// startingMost is for how long a member may not be ready, for any reason, before that is failing.
	startingMost = 5 * time.Minute
)

// wishes are what a set says, with defaults and limits applied.
type wishes struct {
	replicas int
	// starting is how many members may be starting or failing at once; missing how many replicas may be
	// missing while members are replaced.
	starting, missing int
	maxAge            time.Duration // zero: none
	paused            bool
	// bounded: the set says more than the operator allows.
	bounded  bool
	revision string
	// invalid: no members can be made. Those that there are stay, as far as the set wants them and they are not too
	// old: the template may come back. untakeable: nobody can take them meanwhile.
	invalid, untakeable bool
}

// renewedBefore is the part of their greatest age, at its end, in which members are replaced while they can still
// be taken. Members that were made together would otherwise all be too old at the same moment.
const renewedBefore = 10

// tooOld reports whether nobody may take a member because of its age.
func (w wishes) tooOld(m members.Member, now time.Time) bool {
	return w.maxAge > 0 && m.Age(now) >= w.maxAge
}

// available reports whether a member can be taken, by a Sandbox with its pod.
func (w wishes) available(now time.Time) func(members.Member) bool {
	return func(m members.Member) bool { return available(m) && !w.tooOld(m, now) }
}

// wishesOf reads them. most is how many members a set may have.
func wishesOf(spec *sandbarv1alpha1.SandboxSetSpec, revision string, most int32) wishes {
	w := wishes{replicas: int(min(spec.Replicas, most)), paused: spec.Paused, bounded: spec.Replicas > most, revision: revision}
	w.starting = part(spec.ScaleStrategy.MaxUnavailable, "25%", w.replicas)
	w.missing = part(spec.UpdateStrategy.MaxUnavailable, "20%", w.replicas)
	w.maxAge, _ = time.ParseDuration(spec.MemberMaxAge) // the schema admits nothing else
	return w
}

// part is a number, or a part of the replicas, rounded up; at least one.
func part(of *intstr.IntOrString, otherwise string, replicas int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(cmp.Or(of, new(intstr.FromString(otherwise))), replicas, true)
	if err != nil {
		n = 1 // the schema admits nothing else
	}
	return max(n, 1)
}

// plan is what to do for a set now.
type plan struct {
	create int
	remove []members.Member
	// blocked: no more are made because too many do not come up.
	blocked bool
	// again is when to look again although nothing happens; zero: never.
	again time.Duration
}

// parted are the members of a set, by what is to be done with them.
type parted struct {
	// updated are of the present revision and not to be replaced for their age, outdated the others. Those that
	// leave are in neither.
	updated, outdated, leaving []members.Member
	// available is how many can be taken by a Sandbox with the present pod.
	available int
}

func sorted(w wishes, all []members.Member, now time.Time) (s parted, next time.Duration) {
	renewed := w.maxAge
	if !w.invalid {
		renewed -= w.maxAge / renewedBefore
	}
	for _, m := range all {
		present, age := w.invalid || m.Revision == w.revision, m.Age(now)
		switch {
		case m.State == placement.MemberLeaving:
			s.leaving = append(s.leaving, m)
			continue
		case !present, w.maxAge > 0 && age >= renewed:
			s.outdated = append(s.outdated, m)
		default:
			s.updated = append(s.updated, m)
		}
		if present && !w.untakeable && w.available(now)(m) {
			s.available++
		}
		for _, at := range []time.Duration{renewed, w.maxAge} {
			if w.maxAge > 0 && age > 0 && age < at {
				next = sooner(next, at-age)
			}
		}
	}
	return s, next
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// available reports whether a member can be taken.
func available(m members.Member) bool { return m.State == placement.MemberWarm && m.Ready }

// failing reports since when a member has been failing. again is when it will be if nothing changes; zero if
// it is, or will not be.
func failing(m members.Member, now time.Time) (since time.Time, is bool, again time.Duration) {
	switch since = m.Trouble.Since; {
	case available(m), m.Trouble.Waits: // for room, which may come any moment
		return time.Time{}, false, 0
	case m.Trouble.Failing:
		return since, true, 0
	case since.IsZero() && m.State == placement.MemberWarm:
		return time.Time{}, false, 0 // this process has not looked at it yet
	case since.IsZero():
		since = m.Created
	}
	since = since.Add(startingMost)
	return since, !since.After(now), max(since.Sub(now), 0)
}

func isFailing(now time.Time) func(members.Member) bool {
	return func(m members.Member) bool {
		_, is, _ := failing(m, now)
		return is
	}
}

func count(all []members.Member, is func(members.Member) bool) (n int) {
	for _, m := range all {
		if is(m) {
			n++
		}
	}
	return n
}

// planFor says what to do so that there are as many members as there are to be, of the present revision,
// and never none while there is one.
func planFor(w wishes, all []members.Member, now time.Time) plan {
	s, next := sorted(w, all, now)
	p := plan{again: next}
	for _, m := range s.leaving {
		if !m.Going { // what removed it did not come to the end
			p.remove = append(p.remove, m)
		}
	}
	if w.paused {
		return p
	}
	alive, available := slices.Concat(s.outdated, s.updated), w.available(now)
	ready := count(alive, available)
	// While some are replaced there may be one more, so that a set of one is never without.
	most := w.replicas
	if len(s.outdated) > 0 && w.replicas > 0 {
		most++
	}
	p.removeFrom(alive, s, len(alive)-most, available, now)
	ready -= count(p.remove, available)
	p.replace(s, min(ready-max(w.replicas-w.missing, 1), len(s.outdated)), available)
	p.giveUp(s.updated, now)
	if w.invalid {
		return p
	}
	unready := len(s.updated) - count(s.updated, available)
	wanted := min(w.replicas-len(s.updated), most-len(alive))
	p.create = max(min(wanted, w.starting-unready), 0)
	p.blocked = wanted > 0 && p.create == 0 && count(s.updated, isFailing(now)) > 0
	return p
}

// removeFrom removes as many as are too many: first what is of no use, of the rest the oldest.
func (p *plan) removeFrom(alive []members.Member, s parted, n int, available func(members.Member) bool, now time.Time) {
	if n <= 0 {
		return
	}
	outdated := func(m members.Member) bool {
		return slices.ContainsFunc(s.outdated, func(o members.Member) bool { return o.ID == m.ID })
	}
	fails := isFailing(now)
	slices.SortStableFunc(alive, func(a, b members.Member) int {
		return cmp.Or(-falseFirst(fails(a), fails(b)), falseFirst(available(a), available(b)),
			-falseFirst(outdated(a), outdated(b)), byUse(a, b, available, now))
	})
	p.remove = append(p.remove, alive[:n]...)
}

// byUse puts the youngest of those that are not ready first, and the oldest of those that are.
func byUse(a, b members.Member, available func(members.Member) bool, now time.Time) int {
	if available(a) {
		return cmp.Or(cmp.Compare(now.Sub(b.Created), now.Sub(a.Created)), cmp.Compare(a.UID, b.UID))
	}
	return cmp.Or(cmp.Compare(now.Sub(a.Created), now.Sub(b.Created)), cmp.Compare(a.UID, b.UID))
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// replace removes outdated members: all that cannot be taken anyway, and as many others as may be missing.
func (p *plan) replace(s parted, n int, available func(members.Member) bool) {
	for _, m := range s.outdated {
		switch {
		case p.removes(m):
		case !available(m):
			p.remove = append(p.remove, m)
		case n > 0:
			n--
			p.remove = append(p.remove, m)
		}
	}
}

// giveUp removes members that have not come up for too long.
func (p *plan) giveUp(updated []members.Member, now time.Time) {
	for _, m := range updated {
		if p.removes(m) {
			continue
		}
		since, is, again := failing(m, now)
		if !is {
			p.again = sooner(p.again, again)
			continue
		}
		if left := failingKept - now.Sub(since); left > 0 {
			p.again = sooner(p.again, left)
			continue
		}
		p.remove = append(p.remove, m)
	}
}

func (p *plan) removes(m members.Member) bool {
	return slices.ContainsFunc(p.remove, func(other members.Member) bool { return other.ID == m.ID })
}
