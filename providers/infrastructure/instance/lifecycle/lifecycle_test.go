// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// midday is now in the tests of this package that need a time.
var midday = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const lag = time.Minute

// used is an instance that was last used so long ago, while requests could reach it all along.
func used(ago time.Duration) Use {
	return Use{Last: midday.Add(-ago), Lag: lag, Possible: midday.Add(-1000 * time.Hour)}
}

func resting(u Use) Use { u.Resting = true; return u }

func possible(u Use, ago time.Duration) Use { u.Possible = midday.Add(-ago); return u }

func impossible(u Use) Use { u.Possible = time.Time{}; return u }

func after(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: midday.Add(d)} }

func TestTheLifecycleDecides(t *testing.T) {
	sleeps := sandbarv1alpha1.Lifecycle{SleepAfterUnused: after(time.Hour)}
	ends := sandbarv1alpha1.Lifecycle{DeleteAfterUnused: after(24 * time.Hour)}
	both := sandbarv1alpha1.Lifecycle{SleepAfterUnused: after(time.Hour), DeleteAfterUnused: after(24 * time.Hour)}
	shrinks := sandbarv1alpha1.Lifecycle{SleepAfterUnused: after(time.Hour), MinReplicas: 2}
	shutdown := func(in time.Duration, policy sandbarv1alpha1.ShutdownPolicy) sandbarv1alpha1.Lifecycle {
		l := both
		l.ShutdownTime, l.ShutdownPolicy = at(in), policy
		return l
	}
	next := func(in time.Duration) time.Time { return midday.Add(in) }
	asleep := Decision{Suspended: sandbarv1alpha1.SuspendedUnused, Rests: true}
	for name, tc := range map[string]struct {
		lifecycle sandbarv1alpha1.Lifecycle
		suspended bool
		use       Use
		want      Decision
	}{
		"an instance without a lifecycle runs for ever and is never looked at again": {use: used(1000 * time.Hour)},
		"an instance in use runs until it may be unused":                             {lifecycle: sleeps, use: used(0), want: Decision{next: next(time.Hour + lag)}},
		"an instance is unused only when the lag has passed too":                     {lifecycle: sleeps, use: used(time.Hour + lag - 1), want: Decision{next: next(1)}},
		"an unused instance sleeps and is never looked at again":                     {lifecycle: sleeps, use: used(time.Hour + lag), want: asleep},
		"an instance that sleeps goes on sleeping":                                   {lifecycle: sleeps, use: resting(used(2 * time.Hour)), want: asleep},
		"being used wakes it": {lifecycle: sleeps, use: resting(used(0)), want: Decision{next: next(time.Hour + lag)}},
		"a use that another clock puts in the future is a use of now": {
			lifecycle: sleeps, use: used(-30 * time.Second), want: Decision{next: next(time.Hour + lag)},
		},

		"time in which nobody could use it does not count as unused": {
			lifecycle: sleeps, use: possible(used(5*time.Hour), 20*time.Minute), want: Decision{next: next(40*time.Minute + lag)},
		},
		"time since the data plane is back counts": {
			lifecycle: sleeps, use: possible(used(5*time.Hour), time.Hour+lag), want: asleep,
		},
		"while nobody can use it, it does not fall asleep": {
			lifecycle: sleeps, use: impossible(used(5 * time.Hour)), want: Decision{next: next(time.Hour + lag)},
		},
		"while nobody can use it, it is not deleted for being unused": {
			lifecycle: ends, use: impossible(used(500 * time.Hour)), want: Decision{next: next(24*time.Hour + lag)},
		},
		"an outage of the data plane wakes nobody": {
			lifecycle: sleeps, use: resting(impossible(used(5 * time.Hour))), want: asleep,
		},
		"its end wakes nobody either": {
			lifecycle: sleeps, use: resting(possible(used(5*time.Hour), 0)), want: asleep,
		},
		"but being used wakes also while the heartbeat is missing": {
			lifecycle: sleeps, use: resting(impossible(used(time.Second))), want: Decision{next: next(time.Hour + lag - time.Second)},
		},
		"an outage postpones the deletion of one that sleeps": {
			lifecycle: both, use: resting(possible(used(500*time.Hour), time.Hour)),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedUnused, Rests: true, next: next(23*time.Hour + lag)},
		},

		"one that sleeps is looked at again when it is to be deleted": {
			lifecycle: both, use: resting(used(2 * time.Hour)),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedUnused, Rests: true, next: next(22*time.Hour + lag)},
		},
		"one that sleeps is deleted when it has been unused for so long": {
			lifecycle: both, use: resting(used(24*time.Hour + lag)), want: Decision{Deleted: sandbarv1alpha1.SuspendedUnused},
		},
		"of sleep and deletion the sooner is waited for": {lifecycle: both, use: used(0), want: Decision{next: next(time.Hour + lag)}},
		"deletion needs no sleep":                        {lifecycle: ends, use: used(24*time.Hour + lag), want: Decision{Deleted: sandbarv1alpha1.SuspendedUnused}},

		"its tenant's suspension is no sleep": {
			lifecycle: sleeps, suspended: true, use: used(2 * time.Hour), want: Decision{Suspended: sandbarv1alpha1.SuspendedByUser},
		},
		"one that its tenant suspended is not woken by being used": {
			lifecycle: sleeps, suspended: true, use: resting(used(0)), want: Decision{Suspended: sandbarv1alpha1.SuspendedByUser},
		},
		"what its tenant suspended counts as unused": {
			lifecycle: ends, suspended: true, use: used(24*time.Hour + lag), want: Decision{Deleted: sandbarv1alpha1.SuspendedUnused},
		},
		"until then it stays": {
			lifecycle: ends, suspended: true, use: used(23 * time.Hour),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedByUser, next: next(time.Hour + lag)},
		},

		"before its shutdown time it runs": {
			lifecycle: shutdown(time.Minute, sandbarv1alpha1.ShutdownDelete), use: used(0), want: Decision{next: next(time.Minute)},
		},
		"at its shutdown time with Delete it is deleted, used or not": {
			lifecycle: shutdown(0, sandbarv1alpha1.ShutdownDelete), use: used(0), want: Decision{Deleted: sandbarv1alpha1.SuspendedExpired},
		},
		"with Delete it is deleted also when its tenant suspended it": {
			lifecycle: shutdown(0, sandbarv1alpha1.ShutdownDelete), suspended: true, use: used(0), want: Decision{Deleted: sandbarv1alpha1.SuspendedExpired},
		},
		"with Delete it is deleted also while nobody can use it": {
			lifecycle: shutdown(0, sandbarv1alpha1.ShutdownDelete), use: impossible(used(0)), want: Decision{Deleted: sandbarv1alpha1.SuspendedExpired},
		},
		"with Retain it is suspended for good, however long it is unused": {
			lifecycle: shutdown(-500*time.Hour, sandbarv1alpha1.ShutdownRetain), use: used(500 * time.Hour),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedExpired},
		},
		"without a policy it is retained": {
			lifecycle: shutdown(-500*time.Hour, ""), use: used(500 * time.Hour), want: Decision{Suspended: sandbarv1alpha1.SuspendedExpired},
		},
		"with Suspend it is suspended until it was unused for too long": {
			lifecycle: shutdown(0, sandbarv1alpha1.ShutdownSuspend), use: used(0),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedExpired, next: next(24*time.Hour + lag)},
		},
		"with Suspend it is deleted then": {
			lifecycle: shutdown(-time.Hour, sandbarv1alpha1.ShutdownSuspend), use: used(24*time.Hour + lag),
			want: Decision{Deleted: sandbarv1alpha1.SuspendedUnused},
		},
		"being used does not wake what has expired": {
			lifecycle: shutdown(-time.Hour, sandbarv1alpha1.ShutdownRetain), use: resting(used(0)),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedExpired},
		},
		"its tenant's suspension is told before the shutdown": {
			lifecycle: shutdown(-time.Hour, sandbarv1alpha1.ShutdownRetain), suspended: true, use: used(0),
			want: Decision{Suspended: sandbarv1alpha1.SuspendedByUser},
		},
		"a later shutdown time renews it": {
			lifecycle: shutdown(10*time.Minute, sandbarv1alpha1.ShutdownRetain), use: used(0), want: Decision{next: next(10 * time.Minute)},
		},

		"with minReplicas it shrinks and has no cause of suspension": {
			lifecycle: shrinks, use: used(time.Hour + lag), want: Decision{Rests: true, MinReplicas: 2},
		},
		"what has shrunk grows when it is used": {
			lifecycle: shrinks, use: resting(used(0)), want: Decision{MinReplicas: 2, next: next(time.Hour + lag)},
		},
		"minReplicas do not keep its tenant from suspending it": {
			lifecycle: shrinks, suspended: true, use: used(0), want: Decision{Suspended: sandbarv1alpha1.SuspendedByUser},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(Terms{suspended: tc.suspended, Lifecycle: tc.lifecycle}, tc.use, midday)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(Decision{})); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the facts are, looking again at the named time must lead to another decision, or the
// instance is looked at for nothing; and looking a moment before must not.
func TestADeadlineIsWhenTheDecisionChanges(t *testing.T) {
	for _, lifecycle := range []sandbarv1alpha1.Lifecycle{
		{SleepAfterUnused: after(time.Hour)},
		{DeleteAfterUnused: after(time.Hour)},
		{SleepAfterUnused: after(time.Hour), DeleteAfterUnused: after(2 * time.Hour)},
		{ShutdownTime: at(time.Hour), ShutdownPolicy: sandbarv1alpha1.ShutdownDelete},
		{ShutdownTime: at(time.Hour), ShutdownPolicy: sandbarv1alpha1.ShutdownSuspend, DeleteAfterUnused: after(90 * time.Minute)},
		{SleepAfterUnused: after(time.Hour), MinReplicas: 1},
	} {
		words, u, now := Terms{Lifecycle: lifecycle}, used(0), midday
		for range 4 {
			d := Decide(words, u, now)
			if d.next.IsZero() {
				break
			}
			before, then := Decide(words, u, d.next.Add(-1)), Decide(words, u, d.next)
			if before != d {
				t.Errorf("%+v: decided otherwise before the deadline: %+v, then %+v", lifecycle, d, before)
			}
			if then.next = d.next; then == d {
				t.Errorf("%+v: nothing changes at the deadline of %+v", lifecycle, d)
			}
			now, u.Resting = d.next, then.Rests
		}
	}
}

func TestAnUnreadableLifecycleIsTheTenantsToCorrect(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	obj.Object["spec"].(map[string]any)["lifecycle"] = map[string]any{"sleepAfterUnused": "soon"}
	if _, err := TermsOf(obj); !apierrors.IsInvalid(err) {
		t.Errorf("the error is %v", err)
	}
	obj.Object["spec"].(map[string]any)["lifecycle"] = "never"
	if _, err := TermsOf(obj); !apierrors.IsInvalid(err) {
		t.Errorf("the error is %v", err)
	}
}
