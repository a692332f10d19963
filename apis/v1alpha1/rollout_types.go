// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout says how a change of the operator (of a Template's graph or base, of images, of the
// runtime class, of preview routes) reaches instances that run. What is not set in a Template is
// that of the InfrastructureProvider, and then the default.
type Rollout struct {
	// MaxUnavailable is how many of a Template's running instances may at once have taken a change
	// and not be Ready again: a number, or a share of those that run, rounded up. A rollout begins
	// with one instance, and with each that is Ready again it takes one more at once, up to this.
	// Defaults to 10%; at least 1.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1 on, or a share from 1% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxFailed is how many instances may fail until the rollout is paused: those that were Ready
	// before and are not Ready again in time, those whose pod is refused with the change, and those to
	// which it cannot be given in time. A number, or a share of those that run, rounded up.
	// Defaults to 1%; at least 1.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1 on, or a share from 1% to 100%"
	// +optional
	MaxFailed *intstr.IntOrString `json:"maxFailed,omitempty"`

	// MinReadySeconds is how long an instance must be Ready with a change until it counts as
	// updated. Defaults to 10.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// ProgressDeadlineSeconds is within which time an instance must be Ready with a change, from when it
	// ceases to be Ready. Defaults to 300.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// Paused stops rollouts: no further instance takes a change.
	//
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// TemplateRolledOut is true when all instances of the Template have its present revision. Its
// reason is Complete, Progressing, Paused (by the operator) or Failed (paused because instances
// failed).
const TemplateRolledOut = "RolledOut"

// RolloutPhase is how far a rollout is.
type RolloutPhase string

// The phases of a rollout.
const (
	RolloutProgressing RolloutPhase = "Progressing"
	RolloutPaused      RolloutPhase = "Paused"
	RolloutComplete    RolloutPhase = "Complete"
)

// RolloutStatus is how far a Template's present revision has reached its instances.
type RolloutStatus struct {
	// Revision is the Template's present revision: the graph, and the values of the platform that
	// the graph reads. New instances get it.
	//
	// +optional
	Revision string `json:"revision,omitempty"`

	// Former is the revision that was rolled out before, while Revision is not. New instances get
	// it while the rollout is paused.
	//
	// +optional
	Former string `json:"former,omitempty"`

	// Since is when Revision became the present one.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Phase is Progressing, Paused or Complete.
	//
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// Total is how many instances there are.
	//
	// +optional
	Total int64 `json:"total"`

	// Updated is how many of them have the present revision.
	//
	// +optional
	Updated int64 `json:"updated"`

	// Ready is how many of the updated are Ready, or suspended.
	//
	// +optional
	Ready int64 `json:"ready"`

	// Failed is how many of the updated were Ready before and were not Ready again in time, and how many
	// keep what they had because the runtime cluster refuses their pod with the change, or because the
	// controllers could not give it to them in time.
	//
	// +optional
	Failed int64 `json:"failed"`

	// Message says what the rollout waits for, and what the operator can do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}
