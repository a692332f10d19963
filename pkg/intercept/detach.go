// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import "time"

// reset forgets what is of no concern to a Service without proxies, but since when they drain, and have not been ready.
func (s *State) reset() { *s = State{Draining: s.Draining, NotReady: s.NotReady} }

// detach is the next step out: the Service gets its own pods, and then the proxies go.
func (v *View) detach(s *State, now time.Time) Step {
	if HasTraces(v.Service) {
		return v.restore(s)
	}
	s.NotReady = nil
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
	return v.remove(s)
}

// remove is the step that removes one of the objects that are left.
func (v *View) remove(s *State) Step {
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
	if len(v.Routes.Intents) == 0 {
		*s = State{}
	}
	return Step{Do: Wait}
}
