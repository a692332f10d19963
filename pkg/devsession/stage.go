// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import "time"

// Stage is how far requests have been led from the copy of a workload to its session, or back.
type Stage string

// The stages, in their order. No request is lost at a switch, since the pods that get requests are ready before, and those that
// got them stay for a while.
const (
	// Beside: the session is made. The Service leads to the copy.
	Beside Stage = "Beside"
	// Serving: the Service leads to the session, and the copy runs on.
	Serving Stage = "Serving"
	// Draining is Serving, after the endpoints have become those of the session. The last requests to the copy end.
	Draining Stage = "Draining"
	// Alone: the copy has no pods.
	Alone Stage = "Alone"
	// Returning: the session ends. The copy has pods again, and the Service leads to the session still.
	Returning Stage = "Returning"
	// Leaving: the Service leads to the copy, and the session runs on.
	Leaving Stage = "Leaving"
	// Left is Leaving, after the endpoints have become those of the copy.
	Left Stage = "Left"
	// Gone: the session has no objects any more.
	Gone Stage = "Gone"
)

const (
	// Drain is how long what got requests stays after the endpoints have become others: proxies on nodes hear of it later, and
	// requests end.
	Drain = 10 * time.Second
	// Patience is for how long the end of a session waits for the copy to be ready, and for its endpoints.
	Patience = 2 * time.Minute
)

// LeadsToSession reports whether the Service of the workload chooses the session's pods.
func (s Stage) LeadsToSession() bool {
	return s == Serving || s == Draining || s == Alone || s == Returning
}

// StopsCopy reports whether the copy has no pods.
func (s Stage) StopsCopy() bool { return s == Alone }

// Ends reports whether the session is on its way out.
func (s Stage) Ends() bool { return s == Returning || s == Leaving || s == Left || s == Gone }

// Seen is what was observed before a step.
type Seen struct {
	// SessionReady and CopyReady: all pods that are wanted are ready.
	SessionReady, CopyReady bool
	// ToSession: the Service has endpoints, and all of them are of the session. ToCopy: none is.
	ToSession, ToCopy bool
	// Rests: no pods are wanted at all, since the Sandbox is suspended.
	Rests bool
}

// Next is the stage that follows from what was seen, the same if nothing is to be done, and after which time to look again
// although no event comes; zero for never. ends says that the session is to go.
func Next(stage Stage, since time.Time, ends bool, seen Seen, now time.Time) (next Stage, again time.Duration) {
	switch {
	case stage == Gone, seen.Rests && (ends || stage.Ends()):
		return Gone, 0 // nobody serves, so that nothing can be lost
	case seen.Rests:
		return stage, 0
	case stage.Ends():
		return out(stage, now.Sub(since), seen)
	case ends && stage == Beside:
		return Gone, 0
	case ends:
		return Returning, 0
	}
	return in(stage, now.Sub(since), seen)
}

// lookAgain is how soon endpoints are read again while a switch waits for them: no watch tells of them.
const lookAgain = time.Second

// in is Next for a session that is to stay; passed is how long the stage has lasted.
func in(stage Stage, passed time.Duration, seen Seen) (Stage, time.Duration) {
	switch {
	case stage == Alone:
		return Alone, 0 // what a developer breaks, a developer mends
	case !seen.SessionReady:
		return Beside, 0 // also back: the copy is there still
	case stage == Beside:
		return Serving, lookAgain
	case stage == Serving && !seen.ToSession:
		return Serving, lookAgain
	case stage == Serving:
		return Draining, Drain
	case passed < Drain:
		return Draining, Drain - passed
	}
	return Alone, 0
}

// out is Next for a session that ends.
func out(stage Stage, passed time.Duration, seen Seen) (Stage, time.Duration) {
	switch {
	case stage == Returning && (seen.CopyReady || !seen.SessionReady || passed >= Patience):
		return Leaving, lookAgain
	case stage == Returning:
		return Returning, min(Patience-passed, lookAgain)
	case stage == Leaving && (seen.ToCopy || passed >= Patience):
		return Left, Drain
	case stage == Leaving:
		return Leaving, lookAgain
	case passed < Drain:
		return Left, Drain - passed
	}
	return Gone, 0
}
