// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// Observation is how an instance is after its reconcile.
type Observation struct {
	Placement string
	// Target is what the one who looked takes for the present revision.
	Target string
	// Outdated is true if the instance is to change to have what the operator says now.
	Outdated bool
	// Resting is true if nothing of it runs, and nothing is meant to.
	Resting bool
	// Ready is since when it is Ready; zero if it is not.
	Ready time.Time
	// Unready is since when it is not Ready; zero if it is, or if that is not known.
	Unready time.Time
	// Failing is true if it is not Ready for a cause that does not mend itself.
	Failing bool
	// Updating is since when it is being updated; zero if it is not.
	Updating time.Time
	// Refused is why it cannot take the change although it has its turn; empty if it can. It has failed
	// then, whether or not it was Ready, and runs as before.
	Refused string
	// Wake has it reconciled.
	Wake func()
}

// Observe takes note of how an instance is. It returns after which time to observe it again; zero
// means when something of it changes.
func (t *Tracker) Observe(template string, o Observation) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.state(template), t.now()
	m := s.member(o.Placement, now)
	before := *m
	m.seen = now
	if o.Target == s.config.Target || !s.known {
		m.outdated = o.Outdated
	}
	m.wake, m.resting, m.ready, m.unready, m.updating = o.Wake, o.Resting, !o.Ready.IsZero(), o.Unready, o.Updating
	if !m.outdated {
		m.granted = time.Time{}
	}
	if m.refused = o.Refused; m.updating.IsZero() {
		m.taken = "" // its turn is over
	}
	switch {
	case !o.Failing:
		m.failing = time.Time{}
	case m.failing.IsZero():
		m.failing = now
	}
	m.settled = (m.settled || (!before.updating.IsZero() && m.updating.IsZero())) && !m.outdated
	if before.differs(m) {
		t.mark(template)
	}
	return m.recheck(s.config.Settings, o.Ready, now)
}

// recheck is when an instance that is being updated is settled, or has failed.
func (m *member) recheck(s Settings, ready, now time.Time) time.Duration {
	if m.updating.IsZero() {
		return 0
	}
	if m.ready {
		return max(untilSettled(s, m.updating, ready, now), time.Millisecond)
	}
	left := s.ProgressDeadline - now.Sub(m.began())
	if !m.failing.IsZero() {
		left = min(left, failingTime-now.Sub(m.failing))
	}
	return max(left, 0)
}

// unmovedFor is how long an instance that takes a change must be Ready if it never ceases to be. After a
// change of the graph kro calls an instance complete by the former graph until it has the new one in
// hand, which takes seconds. A rollout that believed it would go on to the next instance, and the next,
// and kro would replace the pods of all of them at once.
const unmovedFor = 30 * time.Second

// Settled reports whether an instance that has taken a change is Ready for long enough. It may have
// been Ready since before, if it never ceased to be.
func Settled(s Settings, updating, ready, now time.Time) bool {
	return !ready.IsZero() && untilSettled(s, updating, ready, now) <= 0
}

func untilSettled(s Settings, updating, ready, now time.Time) time.Duration {
	if ready.After(updating) {
		return s.MinReady - now.Sub(ready)
	}
	return max(s.MinReady, unmovedFor) - now.Sub(updating)
}

// differs reports whether the plan may be another for it. A wake-up is none of its business, and a
// deadline that has passed is.
func (m *member) differs(other *member) bool {
	a, b := m, other
	return a.outdated != b.outdated || a.resting != b.resting || a.ready != b.ready || a.granted.IsZero() != b.granted.IsZero() ||
		a.settled != b.settled || a.refused != b.refused || !a.updating.Equal(b.updating) || !b.updating.IsZero()
}
