// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Terms are a tenant's words on how long an instance lives.
type Terms struct {
	suspended bool
	sandbarv1alpha1.Lifecycle
}

// Use is what is known of the use of an instance.
type Use struct {
	// Last is when the instance was last used, to the precision of lag.
	Last time.Time
	// Lag is how much later than last it may have been used in fact.
	Lag time.Duration
	// Possible is since when requests could reach the instance; zero while none can.
	Possible time.Time
	// Resting tells that the instance rests already for being unused.
	Resting bool
	// KeepAwake and keep forbid for now to put it to sleep, and to delete it, for being unused.
	KeepAwake, Keep bool
}

// Allowed takes over what the replicas of the data plane and the clocks allow.
func (u *Use) Allowed(v inuse.Verdict) {
	u.Possible, u.KeepAwake, u.Keep = v.Since, !v.Sleep, !v.Delete
}

// HoldRecheck is how soon an instance is looked at again whose time has come and that must not be
// taken for now. What forbids it ends without an event.
const HoldRecheck = 30 * time.Second

// Decision is what follows from both.
type Decision struct {
	// Suspended says why the instance has no pods; empty when it has.
	Suspended sandbarv1alpha1.SuspensionCause
	// Rests tells that nobody used the instance for long enough: it is suspended, or it keeps
	// no more than minReplicas.
	Rests       bool
	MinReplicas int32
	// Deleted says why the instance is to be deleted: SuspendedExpired or SuspendedUnused.
	// Empty: it is not.
	Deleted sandbarv1alpha1.SuspensionCause
	// next is when the same facts lead to another decision; zero: never.
	next time.Time
}

// Decide is the whole of the lifecycle: it has no other state than what it is given.
//
// While nobody can use an instance, because no data plane serves, it is not unused; what was
// unused before starts anew when the data plane is back. That only ever postpones: an instance
// that rests goes on resting, or the end of an outage would wake all of them at once. A replica of the
// data plane whose word is missing postpones in the same way.
func Decide(t Terms, u Use, now time.Time) Decision {
	last := earlier(u.Last, now) // another machine's clock may be ahead of this one's
	unusedFrom := later(last, earlier(u.Possible, now)).Add(u.Lag)
	if u.Possible.IsZero() {
		unusedFrom = now.Add(u.Lag)
	}
	var d Decision
	due := func(at time.Time) bool {
		if now.Before(at) && (d.next.IsZero() || at.Before(d.next)) {
			d.next = at
		}
		return !now.Before(at)
	}
	// unused reports whether the instance is to be taken for not having been used until then.
	unused := func(until time.Time, held bool) bool {
		if !due(until) {
			return false
		}
		if held {
			due(now.Add(HoldRecheck))
		}
		return !held
	}
	expired := t.ShutdownTime != nil && due(t.ShutdownTime.Time)
	retained := expired && t.ShutdownPolicy != sandbarv1alpha1.ShutdownSuspend
	switch {
	case expired && t.ShutdownPolicy == sandbarv1alpha1.ShutdownDelete:
		return Decision{Deleted: sandbarv1alpha1.SuspendedExpired}
	case t.DeleteAfterUnused != nil && !retained && unused(unusedFrom.Add(t.DeleteAfterUnused.Duration), u.Keep):
		return Decision{Deleted: sandbarv1alpha1.SuspendedUnused}
	case t.suspended:
		d.Suspended = sandbarv1alpha1.SuspendedByUser
	case expired:
		d.Suspended = sandbarv1alpha1.SuspendedExpired
	case t.SleepAfterUnused != nil:
		if u.Resting {
			unusedFrom = last.Add(u.Lag)
		}
		d.Rests = unused(unusedFrom.Add(t.SleepAfterUnused.Duration), u.KeepAwake && !u.Resting)
		d.MinReplicas = t.MinReplicas
		if d.Rests && d.MinReplicas == 0 {
			d.Suspended = sandbarv1alpha1.SuspendedUnused
		}
	}
	return d
}

// EndsUnused reports whether being unused has a consequence.
func (t Terms) EndsUnused() bool { return t.SleepAfterUnused != nil || t.DeleteAfterUnused != nil }

// Replicas reads spec.replicas, if the kind has it and it is set.
func Replicas(obj *unstructured.Unstructured) (int64, bool) {
	n, found, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	return n, found && err == nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TermsOf reads the terms of a tenant's object. The schema admits nothing that cannot be read;
// should it ever, its tenant is told and the instance stays as it is.
func TermsOf(obj *unstructured.Unstructured) (Terms, error) {
	t := Terms{suspended: Suspended(obj)}
	fields, found, err := unstructured.NestedMap(obj.Object, "spec", contract.LifecycleField)
	if !found && err == nil {
		return t, nil
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &t.Lifecycle)
	}
	if err != nil {
		return t, apierrors.NewInvalid(obj.GroupVersionKind().GroupKind(), obj.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("spec", contract.LifecycleField), "", fmt.Sprintf("cannot be read: %v", err)),
		})
	}
	if wanted, ok := Replicas(obj); ok && t.MinReplicas > 0 && wanted <= int64(t.MinReplicas) {
		t.SleepAfterUnused = nil // it has no more than it keeps
	}
	return t, nil
}

// RestsAlready reports whether the instance rests for being unused, as the kro instance has it.
func RestsAlready(composed *unstructured.Unstructured, t Terms) bool {
	if composed == nil {
		return false
	}
	if t.MinReplicas == 0 {
		return composed.GetAnnotations()[placement.AnnotationSuspension] == string(sandbarv1alpha1.SuspendedUnused)
	}
	kept, _ := Replicas(composed)
	return kept == int64(t.MinReplicas)
}

// Again says when to look at the instance again if nothing happens to it. The queue holds one
// time per instance, the earliest: an instance in use is looked at once per deadline, and one
// without a deadline never.
func (d Decision) Again(now time.Time) reconcile.Result {
	if d.next.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(d.next.Sub(now), time.Millisecond)}
}

// Suspended reads the field that is reserved in every graph's spec.
func Suspended(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
	return value
}
