// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// failingTime is how long an instance must fail without a pause, for a cause that does not mend
	// itself, until it counts as failed before its deadline.
	failingTime = 30 * time.Second
	// atOnce bounds the turns that are granted and not taken yet, of instances whose turn costs
	// nobody anything: those that rest or are not Ready.
	atOnce = 50
	// named is how many failed instances a message names.
	named = 3
)

// Reasons of the condition RolledOut.
const (
	ReasonComplete    = "Complete"
	ReasonProgressing = "Progressing"
	ReasonPaused      = "Paused"
	ReasonFailed      = "Failed"
)

// member is what is known of one instance.
type member struct {
	placement string
	outdated  bool
	resting   bool
	ready     bool
	// updating is since when the instance, which was Ready, is being updated, or since when its pod is
	// refused; zero while neither is.
	updating time.Time
	// unready is since when it is not Ready; zero if it is, or that is not known.
	unready time.Time
	// failing is since when it has failed; zero while it does not.
	failing time.Time
	// granted is since when it has its turn and has not taken it yet; zero if it has none.
	granted time.Time
	// settled means that it has taken the change that is being rolled out and was Ready long enough
	// afterwards.
	settled bool
	// taken is the Want of its turn until that is over: until it has settled, or it is plain that there is
	// nothing to wait for.
	taken string
	// refused is why it cannot take the change although it has its turn.
	refused string
	// seen is when it was observed last.
	seen time.Time
	wake func()
}

// began is when the progress deadline of an instance began that is being updated: when it ceased to be Ready.
// kro takes a change up only after a while, but never so late as unmovedFor; so an instance that is Ready
// now and then gets no new deadline each time.
func (m *member) began() time.Time {
	if latest := m.updating.Add(unmovedFor); m.unready.After(latest) {
		return latest
	}
	if m.unready.After(m.updating) {
		return m.unready
	}
	return m.updating
}

// overdue reports whether an instance does not take its turn: whatever its reconcile meets, it would hold up
// all others, and nobody would be told.
func (m *member) overdue(s Settings, now time.Time) bool {
	return !m.granted.IsZero() && now.Sub(m.granted) >= s.ProgressDeadline
}

// failed reports whether an instance that was Ready is not Ready again in time, or cannot take the change.
func (m *member) failed(s Settings, now time.Time) bool {
	if m.updating.IsZero() || m.ready {
		return false
	}
	return now.Sub(m.began()) >= s.ProgressDeadline || (!m.failing.IsZero() && now.Sub(m.failing) >= failingTime)
}

// Snapshot is how far a rollout is.
type Snapshot struct {
	// Target is the revision that is rolled out.
	Target          string
	Phase           sandbarv1alpha1.RolloutPhase
	Reason, Message string
	Total, Updated  int
	Ready, Failed   int
	// Updating is how many have their turn, or have taken the change and are not settled yet.
	Updating int
	// Outdated is how many are still to change.
	Outdated int
}

// plan decides which instances have their turn next. missing is how many placements are not known
// yet: each may be one that is being updated, so it takes a place in the budget.
func plan(s Settings, members []*member, missing int, now time.Time) (Snapshot, []*member) {
	var snap Snapshot
	var running, succeeded, granted int
	var failed []*member
	var waiting struct{ ready, unready, resting []*member }
	for _, m := range members {
		snap.Total++
		if !m.resting {
			running++
		}
		switch {
		case m.overdue(s, now):
			failed = append(failed, m)
		case !m.granted.IsZero():
			granted++
			snap.Updating++
		case m.outdated && m.resting:
			waiting.resting = append(waiting.resting, m)
		case m.outdated && m.ready:
			waiting.ready = append(waiting.ready, m)
		case m.outdated:
			waiting.unready = append(waiting.unready, m)
		case m.failed(s, now):
			failed = append(failed, m)
		case !m.updating.IsZero():
			snap.Updating++
		}
		if m.outdated {
			snap.Outdated++
			continue
		}
		if m.refused != "" {
			continue // it has what it had
		}
		snap.Updated++
		if m.ready || m.resting {
			snap.Ready++
		}
		if m.settled {
			succeeded++
		}
	}
	snap.Failed = len(failed)
	maxFailed := share(s.MaxFailed, running)
	snap.say(s, failed, maxFailed, missing)
	if snap.Phase != sandbarv1alpha1.RolloutProgressing {
		return snap, nil
	}
	// One first, and one more with each that is Ready again: a change that breaks every instance
	// breaks one.
	free := min(share(s.MaxUnavailable, running)-len(failed), 1+succeeded) - snap.Updating - missing
	turns := byPlacement(waiting.ready)
	turns = turns[:min(max(free, 0), len(turns))]
	// Whoever is not Ready loses nothing. So those that a change broke go first on the way back.
	room := max(atOnce-granted, 0)
	unready := byPlacement(waiting.unready)
	turns = append(turns, unready[:min(room, len(unready))]...)
	// Nothing of those runs: they prove nothing, and come when those that run have proved it.
	if len(waiting.ready)+len(waiting.unready)+snap.Updating+missing == 0 {
		resting := byPlacement(waiting.resting)
		turns = append(turns, resting[:min(room, len(resting))]...)
	}
	return snap, turns
}

// say sets the phase and its words.
func (snap *Snapshot) say(s Settings, failed []*member, maxFailed, missing int) {
	progress := fmt.Sprintf("%d of %d instances have the present revision", snap.Updated, snap.Total)
	switch {
	case snap.Outdated+snap.Updating+len(failed)+missing == 0:
		snap.Phase, snap.Reason = sandbarv1alpha1.RolloutComplete, ReasonComplete
		snap.Message = "all instances have the present revision"
	case len(failed) >= maxFailed:
		snap.Phase, snap.Reason = sandbarv1alpha1.RolloutPaused, ReasonFailed
		snap.Message = fmt.Sprintf("%s; paused because %d failed with it: %s. "+
			"Apply what was there before to take the change back, or correct it; or mend those instances, or raise spec.rollout.maxFailed (now %d), to go on",
			progress, len(failed), said(failed), maxFailed)
	case s.Paused && snap.Outdated > 0:
		snap.Phase, snap.Reason = sandbarv1alpha1.RolloutPaused, ReasonPaused
		snap.Message = progress + "; paused by spec.rollout.paused of the Template or of the InfrastructureProvider"
	case snap.Outdated+snap.Updating == 0 && missing == 0:
		snap.Phase, snap.Reason = sandbarv1alpha1.RolloutComplete, ReasonComplete
		snap.Message = fmt.Sprintf("no further instance is to take the present revision; %d of %d have it, and %d failed with it: %s", snap.Updated, snap.Total, len(failed), said(failed))
	default:
		snap.Phase, snap.Reason = sandbarv1alpha1.RolloutProgressing, ReasonProgressing
		snap.Message = fmt.Sprintf("%s, %d are being updated", progress, snap.Updating)
		if missing > 0 {
			snap.Message += fmt.Sprintf("; %d placements are still to be looked at", missing)
		}
	}
}

func byPlacement(members []*member) []*member {
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(a.placement, b.placement) })
	return members
}

// said says which instances have failed, and how.
func said(failed []*member) string {
	var unready, refused, overdue []string
	why := ""
	for _, m := range byPlacement(failed) {
		switch {
		case !m.granted.IsZero():
			overdue = append(overdue, m.placement)
		case m.refused != "":
			refused = append(refused, m.placement)
			why = cmp.Or(why, m.refused)
		default:
			unready = append(unready, m.placement)
		}
	}
	var parts []string
	if len(unready) > 0 {
		parts = append(parts, fmt.Sprintf("%d that took it and were Ready before are not Ready again (placements: %s)", len(unready), list(unready)))
	}
	if len(refused) > 0 {
		parts = append(parts, fmt.Sprintf("the pods of %d are refused, which run as before (placements: %s; the first: %s)", len(refused), list(refused), why))
	}
	if len(overdue) > 0 {
		parts = append(parts, fmt.Sprintf("the controllers could not give it to %d in time, as their log says (placements: %s)", len(overdue), list(overdue)))
	}
	return strings.Join(parts, "; ")
}

func list(placements []string) string {
	text := strings.Join(placements[:min(len(placements), named)], ", ")
	if more := len(placements) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
