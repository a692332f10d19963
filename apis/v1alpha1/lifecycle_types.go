// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lifecycle is spec.lifecycle of every kind of instance: when an instance that nobody uses
// sleeps or goes, and when it ends whatever happens. docs/lifecycle.md explains it.
type Lifecycle struct {
	// SleepAfterUnused is how long nobody must have used the instance for it to sleep: its pods
	// are released, its volumes and its name are kept, and the next request wakes it. Nil means
	// that it never sleeps. At least one minute.
	//
	// +optional
	SleepAfterUnused *metav1.Duration `json:"sleepAfterUnused,omitempty"`

	// DeleteAfterUnused is how long nobody must have used the instance for it to be deleted with
	// all it holds. Nil means never. At least one minute, and longer than sleepAfterUnused.
	//
	// +optional
	DeleteAfterUnused *metav1.Duration `json:"deleteAfterUnused,omitempty"`

	// ShutdownTime is when the instance ends, used or not; shutdownPolicy says how. Setting a
	// later time renews it.
	//
	// +optional
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`

	// ShutdownPolicy says what happens at shutdownTime. Defaults to Retain.
	//
	// +kubebuilder:validation:Enum=Delete;Retain;Suspend
	// +optional
	ShutdownPolicy ShutdownPolicy `json:"shutdownPolicy,omitempty"`

	// MinReplicas is how many replicas an unused instance keeps, if its kind has spec.replicas.
	// Such an instance does not sleep: it shrinks to this number and grows back when it is used.
	// Defaults to 0.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`
}

// ShutdownPolicy is what happens to an instance at its shutdown time.
type ShutdownPolicy string

// What a Status of the data plane has in details.causes, by type, when it refuses a call because the instance
// is suspended: waiting does not help, and somebody has to resume it.
const (
	// CauseSuspended: its tenant has suspended it.
	CauseSuspended metav1.CauseType = "InstanceSuspended"
	// CauseExpired: its shutdown time has passed.
	CauseExpired metav1.CauseType = "InstanceExpired"
)

// Shutdown policies.
const (
	// ShutdownDelete deletes the instance with all it holds.
	ShutdownDelete ShutdownPolicy = "Delete"
	// ShutdownRetain suspends the instance and keeps it until its tenant deletes it:
	// deleteAfterUnused no longer counts.
	ShutdownRetain ShutdownPolicy = "Retain"
	// ShutdownSuspend suspends the instance; deleteAfterUnused goes on counting.
	ShutdownSuspend ShutdownPolicy = "Suspend"
)

// SuspensionCause says on whose behalf an instance has no pods. It is also the reason of the
// condition Suspended while that is true.
type SuspensionCause string

// Causes of a suspension, strongest first. Only an instance that sleeps (SuspendedUnused) is
// woken by a request.
const (
	// SuspendedByUser: spec.suspended is true.
	SuspendedByUser SuspensionCause = "ByUser"
	// SuspendedExpired: the shutdown time has passed.
	SuspendedExpired SuspensionCause = "Expired"
	// SuspendedUnused: nobody used it for sleepAfterUnused.
	SuspendedUnused SuspensionCause = "Unused"
)

// InstanceSuspension says since when and why an instance is suspended, and what it keeps.
type InstanceSuspension struct {
	// Since is when the instance was suspended.
	Since metav1.Time `json:"since"`

	// Cause is on whose behalf: ByUser, Expired or Unused.
	Cause SuspensionCause `json:"cause"`

	// Kept names what outlives the suspension: "Identity" (name, URL, control token) and, if
	// there are any, "Volumes".
	//
	// +listType=set
	// +optional
	Kept []string `json:"kept,omitempty"`
}
