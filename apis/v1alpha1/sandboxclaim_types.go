// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SandboxClaim asks for several Sandboxes of one template at once, within a deadline. The Sandboxes are Sandboxes like
// any other; they belong to the claim, and go with it unless it says otherwise.
//
// With the annotation sandbar.dev/idempotency-key, a claim has the Sandboxes of the one that was created first in its
// namespace with the same key, within a day before it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sbc,categories=sandbar
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 59",message="the name of a SandboxClaim must be at most 59 characters long: its Sandboxes have its name and a number"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type SandboxClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which Sandboxes, how many, and by when.
	Spec SandboxClaimSpec `json:"spec"`
	// Status says which Sandboxes there are. The provider writes it.
	Status SandboxClaimStatus `json:"status,omitempty"`
}

// SandboxClaimList is a list of SandboxClaims.
//
// +kubebuilder:object:root=true
type SandboxClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxClaim `json:"items"`
}

// SandboxClaimSpec does not change, but for onDelete and ttlAfterFinished.
//
// +kubebuilder:validation:XValidation:rule="has(self.env) == has(oldSelf.env) && has(self.envFrom) == has(oldSelf.envFrom)",message="env and envFrom do not change; create another SandboxClaim"
type SandboxClaimSpec struct {
	// TemplateRef names the template of the Sandboxes.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	TemplateRef SandboxSetTemplateRef `json:"templateRef"`

	// Replicas is how many Sandboxes. One has the name of the claim; several have that name and a number, from 0 on.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// AllOrNothing deletes all Sandboxes of the claim if not all are Ready in time.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +kubebuilder:default=false
	// +optional
	AllOrNothing bool `json:"allOrNothing,omitempty"`

	// Prewarm is that of each Sandbox: Prefer, Require or None.
	//
	// +kubebuilder:validation:Enum=Prefer;Require;None
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +kubebuilder:default=Prefer
	// +optional
	Prewarm string `json:"prewarm,omitempty"`

	// Resize is that of each Sandbox: Require, BestEffort or Keep.
	//
	// +kubebuilder:validation:Enum=Require;BestEffort;Keep
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +kubebuilder:default=Require
	// +optional
	Resize string `json:"resize,omitempty"`

	// Env is that of each Sandbox.
	//
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []SandboxEnv `json:"env,omitempty"`

	// EnvFrom is that of each Sandbox.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +listType=atomic
	// +optional
	EnvFrom []SandboxEnvFrom `json:"envFrom,omitempty"`

	// ClaimTimeout is how long it may take until all are Ready, from the creation of the claim on, cold starts
	// included: 1s to 1h.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?[hms])+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be from 1s to 1h"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +kubebuilder:default="1m"
	// +optional
	ClaimTimeout string `json:"claimTimeout,omitempty"`

	// SandboxMetadata is put on each Sandbox when it is made.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxClaim"
	// +optional
	SandboxMetadata SandboxClaimMetadata `json:"sandboxMetadata,omitempty"`

	// OnDelete says what deleting the claim does to its Sandboxes: Delete, or Release, which leaves them to whom they
	// serve.
	//
	// +kubebuilder:validation:Enum=Delete;Release
	// +kubebuilder:default=Delete
	// +optional
	OnDelete string `json:"onDelete,omitempty"`

	// TTLAfterFinished is after which time a claim that has failed is deleted, with what is left of its Sandboxes as
	// onDelete says: at least 0s. A claim that is bound does not finish.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?[hms])+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="1h"
	// +optional
	TTLAfterFinished string `json:"ttlAfterFinished,omitempty"`
}

// Values of OnDelete.
const (
	ClaimDeletes  = "Delete"
	ClaimReleases = "Release"
)

// SandboxClaimMetadata is what of the metadata of its Sandboxes a claim says.
type SandboxClaimMetadata struct {
	// Labels of each Sandbox; none of sandbar.dev.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && !key.matches('^([^/]*[.])?sandbar[.]dev/'))",message="labels of sandbar.dev are not a tenant's to set"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of each Sandbox; none of sandbar.dev.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && !key.matches('^([^/]*[.])?sandbar[.]dev/'))",message="annotations of sandbar.dev are not a tenant's to set"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SandboxClaimPhase is one word for the state of a claim.
type SandboxClaimPhase string

// Phases of a SandboxClaim.
const (
	// ClaimClaiming: not all Sandboxes are Ready yet.
	ClaimClaiming SandboxClaimPhase = "Claiming"
	// ClaimBound: all were Ready in time.
	ClaimBound SandboxClaimPhase = "Bound"
	// ClaimFailed: they were not.
	ClaimFailed SandboxClaimPhase = "Failed"
)

// Conditions of a SandboxClaim.
const (
	// ClaimClaimedCondition: all Sandboxes of the claim are there.
	ClaimClaimedCondition = "Claimed"
	// ClaimReadyCondition: all of them are Ready.
	ClaimReadyCondition = "Ready"
	// ClaimTimedOutCondition: they were not in time.
	ClaimTimedOutCondition = "TimedOut"
)

// SandboxClaimStatus says which Sandboxes a claim has.
type SandboxClaimStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is Claiming, Bound or Failed.
	//
	// +optional
	Phase SandboxClaimPhase `json:"phase,omitempty"`

	// ClaimedReplicas is how many Sandboxes there are, and ReadyReplicas how many are Ready.
	//
	// +optional
	ClaimedReplicas int32 `json:"claimedReplicas"`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Sandboxes are those of the claim.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Sandboxes []SandboxClaimSandbox `json:"sandboxes,omitempty"`

	// SameAs is the claim that was created first with the same idempotency key. The Sandboxes are that claim's, and go
	// with it; this one has none of its own.
	//
	// +optional
	SameAs *SandboxClaimReference `json:"sameAs,omitempty"`

	// CompletionTime is when the claim was bound, or failed.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SandboxClaimReference names a SandboxClaim of the same namespace.
type SandboxClaimReference struct {
	// Name and UID of the claim: another claim may get its name.
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// SandboxClaimSandbox is a Sandbox of a claim.
type SandboxClaimSandbox struct {
	// Name and UID of the Sandbox.
	Name string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
	// Start is Warm or Cold.
	//
	// +optional
	Start string `json:"start,omitempty"`
	// Ready is whether it is Ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
	// URL is the base of its verbs.
	//
	// +optional
	URL string `json:"url,omitempty"`
}

func init() { builtInTypes = append(builtInTypes, &SandboxClaim{}, &SandboxClaimList{}) }
