// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// phase says in one word what the conditions say together. Once the part with the copies was looked at, that is its phase, unless its
// copies are ready and requests are not led to them.
func phase(l Look, t told, r toldOfRoute, v verdicts) sandbarv1alpha1.InstancePhase {
	switch {
	case l.Deleting != "":
		return sandbarv1alpha1.InstanceDeleting
	case l.Copies.goes():
		return sandbarv1alpha1.InstanceMaterializing // another one follows
	case l.Copies.Unseen:
		return unseen(l)
	case !v.applied.OK:
		return unapplied(l, t, v)
	case !t.current:
		return changing(l)
	case t.Phase == "":
		return sandbarv1alpha1.InstanceMaterializing
	case t.Phase == sandbarv1alpha1.InstanceReady && !v.attached.OK:
		return unattached(l, r, v)
	}
	return t.Phase
}

// unattached is the phase of an instance whose copies are ready, while requests are not led as the spec says.
func unattached(l Look, r toldOfRoute, v verdicts) sandbarv1alpha1.InstancePhase {
	switch {
	case !r.current && !l.Route.Unseen:
		return sandbarv1alpha1.InstanceMaterializing // a change is on its way
	case wasReady(l):
		return sandbarv1alpha1.InstanceDegraded
	case v.attached.Reason == sandbarv1alpha1.RouteInvalidSpec:
		return sandbarv1alpha1.InstanceFailed
	}
	return sandbarv1alpha1.InstanceMaterializing // the operator, or the controller of a Gateway, may mend it
}

func wasReady(l Look) bool {
	return l.Old.Phase == sandbarv1alpha1.InstanceReady || l.Old.Phase == sandbarv1alpha1.InstanceDegraded
}

// unapplied is the phase of an instance whose spec its parts do not have. What they were before may serve.
func unapplied(l Look, t told, v verdicts) sandbarv1alpha1.InstancePhase {
	switch {
	case l.Suspended != "" && t.current:
		return t.Phase
	case l.Route.goes():
		return sandbarv1alpha1.InstanceMaterializing // another one follows
	case serves(t):
		return sandbarv1alpha1.InstanceDegraded
	case v.applied.Reason == reasonNotAllowed, v.applied.Reason == ReasonApplyFailed:
		return sandbarv1alpha1.InstancePending // the operator, or the provider, may mend it
	}
	return sandbarv1alpha1.InstanceFailed
}

// unseen is the phase of an instance of whose part nothing is known. What was told of it last may serve still.
func unseen(l Look) sandbarv1alpha1.InstancePhase {
	switch was := l.Old.Phase; {
	case wasReady(l):
		return sandbarv1alpha1.InstanceDegraded
	case l.Suspended != "" && (was == sandbarv1alpha1.InstanceSuspended || was == sandbarv1alpha1.InstanceSuspending):
		return was
	}
	return sandbarv1alpha1.InstancePending
}

// serves reports whether pods of the part are ready.
func serves(t told) bool {
	for i := range t.Components {
		if t.Components[i].Ready {
			return true
		}
	}
	return t.Phase == sandbarv1alpha1.InstanceReady || t.Phase == sandbarv1alpha1.InstanceDegraded
}

// changing is the phase of an instance whose part has not been looked at since it was made or changed.
func changing(l Look) sandbarv1alpha1.InstancePhase {
	rested := l.Old.Phase == sandbarv1alpha1.InstanceSuspended || l.Old.Phase == sandbarv1alpha1.InstanceSuspending || l.Old.Phase == sandbarv1alpha1.InstanceWaking
	switch {
	case l.Suspended != "" && l.Old.Phase == sandbarv1alpha1.InstanceSuspended:
		return sandbarv1alpha1.InstanceSuspended // it rests already, and something else has changed
	case l.Suspended != "" && l.Old.Phase != "":
		return sandbarv1alpha1.InstanceSuspending
	case rested:
		return sandbarv1alpha1.InstanceWaking
	}
	return sandbarv1alpha1.InstanceMaterializing
}
