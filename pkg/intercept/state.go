// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Bounds in time. They are the promises of docs/sandboxroutes.md.
const (
	// FailOpenAfter is how long a Service has no proxy that is ready before it gets its own pods back. Such times add up until there has been
	// one for ReadyFor without a break: proxies that are ready for 5 s, and then not for 5 s, have the Service get its own pods
	// back with the second time. That is within half a minute, and within a minute for all that are not ready for a fifth of the time or more.
	FailOpenAfter = 10 * time.Second
	ReadyFor      = 30 * time.Second
	// RetryFirst is the wait before proxies that were not ready are tried again; it doubles each time, and is RetryLast from the
	// MaxFailures-th time on: each try may cost the Service's clients FailOpenAfter. That begins from the first when the proxies have stood
	// for ForgetAfter, and when others are to come, of another image for example.
	RetryFirst  = 30 * time.Second
	RetryLast   = time.Hour
	MaxFailures = 5
	ForgetAfter = time.Hour
	// DampFirst is the wait before proxies come again that have gone twice, each within ForgetDetaches of the last time; it doubles each time,
	// up to DampLast. After the first time there is none: a route that is deleted and made again works at once.
	DampFirst      = time.Minute
	DampLast       = time.Hour
	ForgetDetaches = time.Hour
	// PendingFor is how long proxies may take to start before that is told as a failure.
	PendingFor = time.Minute
	// ConflictWithin is the time in which a selector that somebody else changes twice is left alone, and ConflictFor how long.
	ConflictWithin = 5 * time.Minute
	ConflictFor    = time.Hour
	// LookAgain is how soon to look again for what no event tells of.
	LookAgain = 10 * time.Second
)

// State is what is remembered of the interception of a Service. It is written before what it speaks of is done, so that a process
// which ends in between takes nothing of its own for the work of somebody else; but for Switched, which follows the switch.
type State struct {
	// Reason and Message are what the routes say, but for those of Refused. The reason is one of the condition Attached.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Detail is what the runtime cluster has said. It is for operators, and not for tenants.
	Detail string `json:"detail,omitempty"`
	// Applied are the intents that the proxies have, by route, each by its Hash.
	Applied map[types.UID]string `json:"applied,omitempty"`
	// Refused says why the proxies cannot have those of a route.
	Refused map[types.UID]string `json:"refused,omitempty"`
	// Switched is set while the Service has the selector of the proxies, as far as it is up to Sandbar.
	Switched bool `json:"switched,omitempty"`
	// Pending is since when the proxies are to come.
	Pending *metav1.Time `json:"pending,omitempty"`
	// NotReady is since when a Service that is intercepted has no proxy that is ready. Times in which there was one for less than ReadyFor
	// are taken out: it is then later than that was.
	NotReady *metav1.Time `json:"notReady,omitempty"`
	// ReadyAgain is since when it has one again; nil while it has none, or has always had one.
	ReadyAgain *metav1.Time `json:"readyAgain,omitempty"`
	// Failures is how often in a row that was too long, and RetryAfter when the proxies are tried again.
	Failures   int          `json:"failures,omitempty"`
	RetryAfter *metav1.Time `json:"retryAfter,omitempty"`
	// Tried tells the proxies that failed from others.
	Tried string `json:"tried,omitempty"`
	// Reapplied is when the selector was written last over a change of somebody else.
	Reapplied *metav1.Time `json:"reapplied,omitempty"`
	// Conflict is since when the Service is left alone, because somebody changed its selector again.
	Conflict *metav1.Time `json:"conflict,omitempty"`
	// Detached is when the proxies went last because nothing asked for them, or could have them, and Detaches how often in a row. Both outlive
	// the routes, for ForgetDetaches.
	Detached *metav1.Time `json:"detached,omitempty"`
	Detaches int          `json:"detaches,omitempty"`
	// Draining is since when the proxies lead nothing any more.
	Draining *metav1.Time `json:"draining,omitempty"`
}

// Encode is the state as it is written.
func (s *State) Encode() string { return encode(s) }

func (s *State) isZero() bool { return s.Encode() == (&State{}).Encode() }

func (s *State) say(reason, message string) { s.Reason, s.Message, s.Detail = reason, message, "" }

// Denied is a State that says that the runtime cluster has refused a write about a Service, and why. While requests are led the routes
// stay attached, and the operator alone is told.
func (s State) Denied(service, why string) State {
	return s.failed(sandbarv1alpha1.RouteProviderUnavailable, "the runtime cluster refuses what the proxies of Service "+service+" need: ask the operator, whom sandbar-provider doctor tells more", why)
}

// Undone is a State that says that something on the runtime cluster changes what is written about a Service; as Denied.
func (s State) Undone(service, why string) State {
	return s.failed(sandbarv1alpha1.RouteAttachFailed, "something on the runtime cluster changes what the proxies of Service "+service+" need: ask the operator, whom sandbar-provider doctor tells more", why)
}

func (s State) failed(reason, message, detail string) State {
	if !s.Switched || s.Reason != sandbarv1alpha1.RouteAttached {
		s.say(reason, message)
	}
	s.Detail = detail
	return s
}

// WithoutProxy reports whether the time passes after which the Service gets its own pods back.
func (s *State) WithoutProxy() bool { return s.NotReady != nil && s.ReadyAgain == nil }

// noteReady notes that there is a proxy that is ready, if there was none. That there has been one for ReadyFor is not noted: ReadyAgain tells
// it, so that the state is written no more often than the proxies become ready or not.
func (s *State) noteReady(now time.Time) {
	if s.WithoutProxy() {
		s.ReadyAgain = stamp(now)
	}
}

// noteNotReady notes that there is none.
func (s *State) noteNotReady(now time.Time) {
	switch {
	case s.NotReady == nil, s.ReadyAgain != nil && left(s.ReadyAgain, ReadyFor, now) <= 0:
		s.NotReady = stamp(now)
	case s.ReadyAgain != nil:
		// Whole seconds, rounded down: the time that was ready counts for no more than it was.
		s.NotReady = new(metav1.NewTime(s.NotReady.Add(max(0, now.Sub(s.ReadyAgain.Time)).Truncate(time.Second))))
	}
	s.ReadyAgain = nil
}

// stamp is a time as it is written: whole seconds. One that is rounded down would have a wait end early.
func stamp(now time.Time) *metav1.Time {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if at.Time.Before(now) {
		at = metav1.NewTime(at.Add(time.Second))
	}
	return &at
}

// left is how much of a time since then is left.
func left(since *metav1.Time, all time.Duration, now time.Time) time.Duration {
	return all - now.Sub(since.Time)
}

// backoff is how long proxies are left alone that were not ready for the nth time in a row.
func backoff(n int) time.Duration {
	if n >= MaxFailures {
		return RetryLast
	}
	return RetryFirst << max(0, n-1) // somebody may have written a number below 1
}
