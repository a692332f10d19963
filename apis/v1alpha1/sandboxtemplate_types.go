// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SandboxTemplate is a pod template of a tenant's, by which Sandboxes are made. It does not change: a new
// version has a new name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sbt,categories=sandbar
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1
type SandboxTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the pod template. It does not change, but for its description.
	Spec SandboxTemplateSpec `json:"spec"`
	// Status says whether Sandboxes can be made of it. The provider writes it.
	Status SandboxTemplateStatus `json:"status,omitempty"`
}

// SandboxTemplateList is a list of SandboxTemplates.
//
// +kubebuilder:object:root=true
type SandboxTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxTemplate `json:"items"`
}

// SandboxTemplateSpec is a pod template, or another one with a patch. All of it but the description is
// written once; an admission policy of the provider workspace refuses a change.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) != has(self.templateRef)",message="exactly one of template and templateRef must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.patch) || has(self.templateRef)",message="patch goes with templateRef: a template that is written here says all of it"
type SandboxTemplateSpec struct {
	// Description is for people.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Description string `json:"description,omitempty"`

	// Template is the pod. Package podtemplate has its schema, which is that of a Sandbox's podTemplate.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Template *PodTemplate `json:"template,omitempty"`

	// TemplateRef names the template that this one begins with. A SandboxTemplate that is named must have
	// a template of its own, or name a Template.
	//
	// +optional
	TemplateRef *PodTemplateRef `json:"templateRef,omitempty"`

	// Patch is a strategic merge patch of that template, an object with metadata and spec.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// VolumeClaimTemplates are volumes that each Sandbox gets one of, as if it had named them itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(other, other.metadata.name == v.metadata.name))",message="two volumes have the same name"
	// +listType=atomic
	// +optional
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// PlacementClass names a kind of place for the pod, one of the operator's (spec.placementClasses of the
	// InfrastructureProvider). Without it the pod has that of templateRef, if any.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	PlacementClass string `json:"placementClass,omitempty"`

	// Runtime says how a Sandbox that takes a running sandbox of a SandboxSet gets its spec.env and spec.envFrom.
	// It does not change either, and is part of the pod.
	//
	// +optional
	Runtime *SandboxRuntime `json:"runtime,omitempty"`

	// PersistentContents says what of a Sandbox outlives its pod. Only filesystem can be had: the volumes.
	// Neither memory nor addresses are kept.
	//
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:Enum=filesystem
	// +kubebuilder:default={filesystem}
	// +listType=set
	// +optional
	PersistentContents []string `json:"persistentContents,omitempty"`
}

// Types of a SandboxRuntime.
const (
	// RuntimeNone: the pod is as it is written, and nothing reaches it once it runs.
	RuntimeNone = "None"
	// RuntimeRunner: sandbar-runner starts the command of the first container, and starts it again with other variables.
	RuntimeRunner = "Runner"
)

// SandboxRuntime says what takes the variables that come late.
type SandboxRuntime struct {
	// Type is None, or Runner: the provider puts its runner before the command of the first container, which must be written.
	// Without it a Sandbox of a SandboxTemplate that begins with another one has that one's.
	//
	// +kubebuilder:validation:Enum=None;Runner
	// +kubebuilder:default=None
	// +optional
	Type string `json:"type,omitempty"`
}

// RuntimeType is the type of the runtime that the spec says itself; empty if it says none.
func (s *SandboxTemplateSpec) RuntimeType() string {
	if s.Runtime == nil {
		return ""
	}
	return cmp.Or(s.Runtime.Type, RuntimeNone)
}

// SandboxEnv is a variable of a Sandbox.
type SandboxEnv struct {
	// Name has letters, digits and underscores, and begins with no digit. PORT and names that begin with SANDBAR_ are not a
	// tenant's to set, nor are names that the template's pod sets itself.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`

	// Value is taken as it is: $(NAME) means nothing in it.
	//
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Value string `json:"value,omitempty"`
}

// SandboxEnvFrom names what a Sandbox gets variables from.
type SandboxEnvFrom struct {
	// SecretRef names a Secret of the same namespace that is shared with the provider: it has the label sandbar.dev/share
	// with the value "true", and the workspace's APIBinding accepts the permission claim get on secrets.
	SecretRef SandboxSecretRef `json:"secretRef"`
}

// SandboxSecretRef names a Secret.
type SandboxSecretRef struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SandboxTemplateValid is the condition that says whether Sandboxes can be made of a SandboxTemplate.
const SandboxTemplateValid = "Valid"

// Reasons of SandboxTemplateValid.
const (
	// TemplateValidReason is that of a template whose pod the runtime cluster would take.
	TemplateValidReason = "Valid"
	// TemplateSpecRefused: a field is not a tenant's to set, or does not go with another.
	TemplateSpecRefused = "SpecRefused"
	// TemplatePodRefused: the runtime cluster would refuse the pod.
	TemplatePodRefused = "PodRefused"
	// TemplateNotUsable: the template that it refers to is missing, refers too far, or is not usable.
	TemplateNotUsable = "TemplateNotUsable"
	// TemplateNotChecked: the operator has configured nothing yet.
	TemplateNotChecked = "NotConfigured"
)

// SandboxTemplateStatus says whether Sandboxes can be made of a SandboxTemplate.
type SandboxTemplateStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// PodHash is of the pod as it would be made now, by the operator's present rules: two templates with
	// one hash make the same pods.
	//
	// +optional
	PodHash string `json:"podHash,omitempty"`
}

func init() { builtInTypes = append(builtInTypes, &SandboxTemplate{}, &SandboxTemplateList{}) }
