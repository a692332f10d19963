// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SandboxSet keeps sandboxes of one template ready that nobody uses yet. A Sandbox which is created with
// that template in the same namespace takes one of them, and is Ready at once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=sbs,categories=sandbar
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.template`
// +kubebuilder:printcolumn:name="Patched",type=boolean,JSONPath=`.status.patched`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Failing",type=integer,JSONPath=`.status.failingReplicas`
// +kubebuilder:printcolumn:name="Claimed",type=integer,JSONPath=`.status.claimed.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`,priority=1
type SandboxSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says of what the sandboxes are made, and how many there are.
	Spec SandboxSetSpec `json:"spec"`
	// Status is how the set is. The provider writes it.
	Status SandboxSetStatus `json:"status,omitempty"`
}

// SandboxSetList is a list of SandboxSets.
//
// +kubebuilder:object:root=true
type SandboxSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxSet `json:"items"`
}

// SandboxSetSpec says of what, and how many. A change of the template replaces the unused sandboxes; those
// that somebody has taken stay as they are.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) != has(self.templateRef)",message="exactly one of template and templateRef must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplates) || has(self.template)",message="volumeClaimTemplates go with template: a template that is named says them itself"
// +kubebuilder:validation:XValidation:rule="!has(self.runtime) || has(self.template)",message="runtime goes with template: a template that is named says it itself"
type SandboxSetSpec struct {
	// Replicas is how many sandboxes are unused, ready or being made. One that is taken is replaced. The
	// operator bounds it (spec.limits.setReplicas of the InfrastructureProvider).
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas"`

	// TemplateRef names the template of which the sandboxes are made.
	//
	// +optional
	TemplateRef *SandboxSetTemplateRef `json:"templateRef,omitempty"`

	// Template is the pod. The set counts as a SandboxTemplate of its own name then. If there is one as well that
	// differs, the set is not valid (NameConflict).
	// Package podtemplate has its schema, which is that of a Sandbox's podTemplate.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Template *PodTemplate `json:"template,omitempty"`

	// VolumeClaimTemplates are volumes that each sandbox gets one of.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(other, other.metadata.name == v.metadata.name))",message="two volumes have the same name"
	// +listType=atomic
	// +optional
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// Runtime is as in a SandboxTemplate: how a Sandbox that takes one of the sandboxes gets its spec.env and spec.envFrom.
	//
	// +optional
	Runtime *SandboxRuntime `json:"runtime,omitempty"`

	// Patch is a strategic merge patch of the pod template, an object with metadata and spec, at most 64 KiB: it makes
	// unused sandboxes that differ from those of the template, for example cheaper ones. A Sandbox of the template takes
	// them when there are none without a patch, and keeps what the patch has changed, but for the resources (resizeOnClaim).
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// PlacementClass names a kind of place for the pod, one of the operator's (spec.placementClasses of the
	// InfrastructureProvider). It takes the place of the template's, and a Sandbox
	// that takes one of the sandboxes stays where it is.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	PlacementClass string `json:"placementClass,omitempty"`

	// ResizeOnClaim says which resources a Sandbox gets that takes one of the sandboxes, if the patch gives them others than
	// the template's: Template, those of the template, without a restart; or Keep, those that the sandbox has. With Template
	// the set is valid only if the patch can be taken back in a running pod.
	//
	// +kubebuilder:validation:Enum=Template;Keep
	// +kubebuilder:default=Template
	// +optional
	ResizeOnClaim string `json:"resizeOnClaim,omitempty"`

	// Priority orders the sets that have what a Sandbox wants: those with a higher one are used first.
	//
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// ScaleStrategy says how fast the set grows.
	//
	// +optional
	ScaleStrategy SandboxSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// UpdateStrategy says how unused sandboxes are replaced after a change of their template.
	//
	// +optional
	UpdateStrategy SandboxSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// MemberMaxAge is the age, from the start of its pod, from which on an unused sandbox is not taken any more:
	// at least 10m, or 0s for never. It is replaced by a fresh one when it has nine tenths of that age.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?[hms])+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('10m')",message="must be at least 10m, or 0s for never"
	// +kubebuilder:default="24h"
	// +optional
	MemberMaxAge string `json:"memberMaxAge,omitempty"`

	// Paused keeps the set from making and removing sandboxes. Those that are ready are still taken.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// SandboxSetTemplateRef names the template of a set.
type SandboxSetTemplateRef struct {
	// Kind is SandboxTemplate, one of the same namespace, or Template, one of the provider's.
	//
	// +kubebuilder:validation:Enum=SandboxTemplate;Template
	// +kubebuilder:default=SandboxTemplate
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the template.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SandboxSetScaleStrategy says how fast a set grows.
type SandboxSetScaleStrategy struct {
	// MaxUnavailable is how many sandboxes may be starting, or fail to, at once: a number, or a part of
	// replicas, rounded up; at least one.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern="^((100|[1-9]?[0-9])%|[0-9]+)$"
	// +kubebuilder:default="25%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// SandboxSetUpdateStrategy says how unused sandboxes are replaced after a change of their template.
type SandboxSetUpdateStrategy struct {
	// Type is Recreate: a sandbox is replaced by a new one.
	//
	// +kubebuilder:validation:Enum=Recreate
	// +kubebuilder:default=Recreate
	// +optional
	Type string `json:"type,omitempty"`

	// MaxUnavailable is how many of the replicas may be missing meanwhile: a number, or a part of them,
	// rounded up; at least one. While one is available, one stays so.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern="^((100|[1-9]?[0-9])%|[0-9]+)$"
	// +kubebuilder:default="20%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Conditions of a SandboxSet.
const (
	// SandboxSetValid: sandboxes can be made of the template.
	SandboxSetValid = "Valid"
	// SandboxSetAvailable: at least one sandbox can be taken now.
	SandboxSetAvailable = "Available"
	// SandboxSetScalingLimited: something keeps the set from having as many as it should.
	SandboxSetScalingLimited = "ScalingLimited"
	// SandboxSetProgressing: sandboxes are being made or removed.
	SandboxSetProgressing = "Progressing"
)

// SandboxSetNameConflict is a reason of SandboxSetValid, beside those of a SandboxTemplate: the set has a template of
// its own, and there is a SandboxTemplate of its name with another one, which is the one that Sandboxes get.
const SandboxSetNameConflict = "NameConflict"

// SandboxSetPatchRefused is another one: the set's patch does not apply to the pod template, says what is not a
// tenant's to say, or makes a pod that the runtime cluster refuses. The set goes on with its former patch.
const SandboxSetPatchRefused = "PatchRefused"

// SandboxSetQosClassChanges is another one: with the resources of the patch the pod has another QoS class than with those of
// the template, and Kubernetes never changes that of a running pod.
const SandboxSetQosClassChanges = "QosClassChanges"

// Values of ResizeOnClaim.
const (
	// ResizeOnClaimTemplate: a Sandbox gets the resources of the template.
	ResizeOnClaimTemplate = "Template"
	// ResizeOnClaimKeep: it keeps those that the sandbox has in the set.
	ResizeOnClaimKeep = "Keep"
)

// SandboxSetStatus is how a set is.
type SandboxSetStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Revision is of the pod as it would be made now. Sandboxes of another are replaced.
	//
	// +optional
	Revision string `json:"revision,omitempty"`

	// Patched is set if the sandboxes differ from those of the template by the set's patch.
	//
	// +optional
	Patched bool `json:"patched,omitempty"`

	// Template is the one of which sandboxes are made, for people.
	//
	// +optional
	Template string `json:"template,omitempty"`

	// Replicas is how many unused sandboxes there are, ready or not.
	//
	// +optional
	Replicas int32 `json:"replicas"`

	// AvailableReplicas is how many can be taken now, UpdatedReplicas how many have the present revision,
	// and FailingReplicas how many do not come up.
	//
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// +optional
	FailingReplicas int32 `json:"failingReplicas"`

	// Claimed says how many were taken. A process that ends may forget the last few.
	//
	// +optional
	Claimed SandboxSetClaimed `json:"claimed,omitempty"`

	// Problems are why sandboxes do not come up, the most frequent first.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Problems []SandboxSetProblem `json:"problems,omitempty"`

	// Selector is for the scale subresource. It selects nothing: there are no objects in the workspace.
	//
	// +optional
	Selector string `json:"selector,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SandboxSetClaimed counts the sandboxes that were taken out of a set.
type SandboxSetClaimed struct {
	// +optional
	Total int64 `json:"total"`
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
}

// SandboxSetProblem is why some sandboxes of a set do not come up.
type SandboxSetProblem struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Count   int32  `json:"count"`
}

func init() { builtInTypes = append(builtInTypes, &SandboxSet{}, &SandboxSetList{}) }
