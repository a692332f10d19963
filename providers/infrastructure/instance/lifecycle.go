// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// terms are a tenant's words on how long an instance lives.
type terms struct {
	suspended bool
	sandbarv1alpha1.Lifecycle
}

// use is what is known of the use of an instance.
type use struct {
	// last is when the instance was last used, to the precision of lag.
	last time.Time
	// lag is how much later than last it may have been used in fact.
	lag time.Duration
	// possible is since when requests could reach the instance; zero while none can.
	possible time.Time
	// resting tells that the instance rests already for being unused.
	resting bool
}

// decision is what follows from both.
type decision struct {
	// suspended says why the instance has no pods; empty when it has.
	suspended sandbarv1alpha1.SuspensionCause
	// rests tells that nobody used the instance for long enough: it is suspended, or it keeps
	// no more than minReplicas.
	rests       bool
	minReplicas int32
	// deleted says why the instance is to be deleted: SuspendedExpired or SuspendedUnused.
	// Empty: it is not.
	deleted sandbarv1alpha1.SuspensionCause
	// next is when the same facts lead to another decision; zero: never.
	next time.Time
}

// decide is the whole of the lifecycle: it has no other state than what it is given.
//
// While nobody can use an instance, because no data plane serves, it is not unused; what was
// unused before starts anew when the data plane is back. That only ever postpones: an instance
// that rests goes on resting, or the end of an outage would wake all of them at once.
func decide(t terms, u use, now time.Time) decision {
	last := earlier(u.last, now) // another machine's clock may be ahead of this one's
	unusedFrom := later(last, earlier(u.possible, now)).Add(u.lag)
	if u.possible.IsZero() {
		unusedFrom = now.Add(u.lag)
	}
	var d decision
	due := func(at time.Time) bool {
		if now.Before(at) && (d.next.IsZero() || at.Before(d.next)) {
			d.next = at
		}
		return !now.Before(at)
	}
	expired := t.ShutdownTime != nil && due(t.ShutdownTime.Time)
	retained := expired && t.ShutdownPolicy != sandbarv1alpha1.ShutdownSuspend
	switch {
	case expired && t.ShutdownPolicy == sandbarv1alpha1.ShutdownDelete:
		return decision{deleted: sandbarv1alpha1.SuspendedExpired}
	case t.DeleteAfterUnused != nil && !retained && due(unusedFrom.Add(t.DeleteAfterUnused.Duration)):
		return decision{deleted: sandbarv1alpha1.SuspendedUnused}
	case t.suspended:
		d.suspended = sandbarv1alpha1.SuspendedByUser
	case expired:
		d.suspended = sandbarv1alpha1.SuspendedExpired
	case t.SleepAfterUnused != nil:
		if u.resting {
			unusedFrom = last.Add(u.lag)
		}
		d.rests = due(unusedFrom.Add(t.SleepAfterUnused.Duration))
		d.minReplicas = t.MinReplicas
		if d.rests && d.minReplicas == 0 {
			d.suspended = sandbarv1alpha1.SuspendedUnused
		}
	}
	return d
}

// replicas reads spec.replicas, if the kind has it and it is set.
func replicas(obj *unstructured.Unstructured) (int64, bool) {
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

// termsOf reads the terms of a tenant's object. The schema admits nothing that cannot be read;
// should it ever, its tenant is told and the instance stays as it is.
func termsOf(obj *unstructured.Unstructured) (terms, error) {
	t := terms{suspended: suspended(obj)}
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
	if wanted, ok := replicas(obj); ok && t.MinReplicas > 0 && wanted <= int64(t.MinReplicas) {
		t.SleepAfterUnused = nil // it has no more than it keeps
	}
	return t, nil
}
