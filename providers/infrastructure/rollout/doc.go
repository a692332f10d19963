// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides when an instance takes a change of the operator, so that one edit does
// not replace the pods of all tenants at once (ADR 17).
//
// The reconciler of an instance asks for its turn before it writes the kro instance (Tracker.Turn)
// and tells afterwards how the instance is (Tracker.Observe). The tracker grants turns under the
// budget of the Template's rollout and wakes the reconciler of each instance that has one. It writes
// nothing. What has to outlive this process stands in the kro instances themselves: the revision
// that each has, and since when it is being updated; plan.go computes the rest from them.
//
// A turn is not needed for what changes anyway: a new instance, one that wakes, and one whose
// tenant has changed the spec take the present revision at once. While the rollout is paused they
// do not, so that a change that failed reaches nobody else.
package rollout
