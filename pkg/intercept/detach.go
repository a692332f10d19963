// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reset forgets what is of no concern to a Service that is to have no proxies, but since when they drain, and have not been ready, and how often
// they have gone. That they go is counted once: by the state that still says that they were there.
func (s *State) reset(now time.Time) {
	had := s.Switched || s.RetryAfter != nil
	*s = State{Draining: s.Draining, NotReady: s.NotReady, ReadyAgain: s.ReadyAgain, Detached: s.Detached, Detaches: s.Detaches}
	if !had {
		return
	}
	if s.isForgiven(now) {
		s.Detaches = 0
	}
	s.Detached, s.Detaches = stamp(now), max(0, s.Detaches)+1
}

// isForgiven reports whether the last time that the proxies went is so long ago that it does not count.
func (s *State) isForgiven(now time.Time) bool {
	return s.Detached == nil || left(s.Detached, ForgetDetaches, now) <= 0
}

// dampedUntil is when proxies may come again; nil if they may at any time.
func (s *State) dampedUntil() *metav1.Time {
	if s.Detached == nil || s.Detaches < 2 {
		return nil
	}
	wait := DampLast
	if n := s.Detaches - 2; n < 8 { // somebody may have written any number
		wait = min(DampLast, DampFirst<<n)
	}
	return new(metav1.NewTime(s.Detached.Add(wait)))
}

// detach is the next step out: the Service gets its own pods, and then the proxies go.
func (v *View) detach(s *State, now time.Time) Step {
	if HasTraces(v.Service) {
		return v.restore(s)
	}
	s.NotReady, s.ReadyAgain = nil, nil
	return v.dismantle(s, now, !v.Forgetful)
}

// dismantle is the step to what is left of the proxies of a Service that has its own pods, or is gone. With drain the clients of the
// proxies have DrainFor to leave.
func (v *View) dismantle(s *State, now time.Time, drain bool) Step {
	if uids := v.leaving(); len(uids) > 0 {
		// Their routes may go: no request is led by them once the document says so, which comes next; and the Service is restored.
		if text, ok := draining(v.Document); ok {
			return Step{Do: WriteDocument, Text: text}
		}
		return Step{Do: DropIntents, UIDs: uids}
	}
	if text, ok := draining(v.Document); ok {
		return Step{Do: WriteDocument, Text: text}
	}
	if drain && v.Deployment != nil && IsOurs(v.Deployment.Labels) {
		if s.Draining == nil {
			s.Draining = stamp(now)
		}
		if rest := left(s.Draining, DrainFor, now); rest > 0 {
			return Step{Do: Wait, After: rest}
		}
		if v.ProxyServes || v.OwnReady == 0 && v.BehindReady > 0 {
			return Step{Do: Wait} // the endpoints do not show yet that the Service has its own pods
		}
	}
	return v.remove(s, now)
}

// remove is the step that removes one of the objects that are left.
func (v *View) remove(s *State, now time.Time) Step {
	switch {
	case v.Deployment != nil && IsOurs(v.Deployment.Labels):
		return Step{Do: Delete, Object: v.Deployment}
	case v.Budget != nil && IsOurs(v.Budget.Labels):
		return Step{Do: Delete, Object: v.Budget}
	case v.ProxyRuns:
		return Step{Do: Wait, After: LookAgain} // it ends what it has begun, and needs what is below for it
	case v.Behind != nil && IsOurs(v.Behind.Labels):
		return Step{Do: Delete, Object: v.Behind}
	case v.Document != "":
		return Step{Do: DropDocument}
	}
	s.Draining = nil
	if len(v.Routes.Intents) > 0 {
		return Step{Do: Wait}
	}
	if s.isForgiven(now) {
		*s = State{}
		return Step{Do: Wait}
	}
	*s = State{Detached: s.Detached, Detaches: s.Detaches} // until the next proxies, or for ForgetDetaches
	return Step{Do: Wait, After: left(s.Detached, ForgetDetaches, now)}
}
