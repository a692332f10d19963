// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodTemplateSource is what a tenant writes: the field of an instance's spec that a Template names in
// spec.podTemplate.from.
//
// +kubebuilder:validation:XValidation:rule="has(self.podTemplate) != has(self.templateRef)",message="exactly one of podTemplate and templateRef must be set"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",message="volumeClaimTemplates cannot be changed: the volumes exist already"
type PodTemplateSource struct {
	// PodTemplate is the pod, as in a Deployment. What it leaves out of its security context is
	// filled in so that it passes the pod security level restricted.
	//
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// TemplateRef names a Template of the provider that offers a pod template, or a SandboxTemplate of
	// the same namespace. The instance follows a Template: when that pod template changes, so does the pod.
	//
	// +optional
	TemplateRef *PodTemplateRef `json:"templateRef,omitempty"`

	// Patch is a strategic merge patch of the pod template, an object with metadata and spec.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// VolumeClaimTemplates are volumes that outlive the pod: they are kept while the instance
	// is suspended and deleted with it. A container mounts them by name.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(other, other.metadata.name == v.metadata.name))",message="two volumes have the same name"
	// +listType=atomic
	// +optional
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}

// PodTemplate is a pod template of a tenant's.
type PodTemplate struct {
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitempty"`

	// The rules say early what package podtemplate refuses in any case; each names the field.
	//
	// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccountName) && !has(self.serviceAccount) && !(has(self.automountServiceAccountToken) && self.automountServiceAccountToken)",message="serviceAccountName and automountServiceAccountToken are not a tenant's to set: a sandbox has no identity on the runtime cluster"
	// +kubebuilder:validation:XValidation:rule="!(has(self.hostNetwork) && self.hostNetwork) && !(has(self.hostPID) && self.hostPID) && !(has(self.hostIPC) && self.hostIPC)",message="hostNetwork, hostPID and hostIPC are not a tenant's to set: they lead out of the sandbox"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeName) && !has(self.nodeSelector) && !has(self.affinity) && !has(self.tolerations) && !has(self.topologySpreadConstraints) && !has(self.schedulerName) && !has(self.schedulingGates)",message="nodeName, nodeSelector, affinity, tolerations, topologySpreadConstraints, schedulerName and schedulingGates are not a tenant's to set: the operator decides where sandboxes run"
	// +kubebuilder:validation:XValidation:rule="!has(self.priorityClassName) && !has(self.priority) && !has(self.preemptionPolicy)",message="priorityClassName, priority and preemptionPolicy are not a tenant's to set"
	// +kubebuilder:validation:XValidation:rule="!has(self.restartPolicy) || self.restartPolicy == 'Always'",message="restartPolicy must be Always: a sandbox runs until it is suspended"
	// +kubebuilder:validation:XValidation:rule="!has(self.activeDeadlineSeconds)",message="activeDeadlineSeconds cannot be set: use spec.lifecycle"
	// +kubebuilder:validation:XValidation:rule="!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds <= 300",message="terminationGracePeriodSeconds must be at most 300"
	Spec corev1.PodSpec `json:"spec"`
}

// PodTemplateMetadata is what of a pod's metadata a tenant may write.
type PodTemplateMetadata struct {
	// Labels without a domain (app, not example.com/app) are free; others must be on the
	// operator's allow-list.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations must be on the operator's allow-list.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Kinds of a PodTemplateRef.
const (
	RefTemplate        = "Template"
	RefSandboxTemplate = "SandboxTemplate"
)

// PodTemplateRef names a template.
type PodTemplateRef struct {
	// Kind is Template, one of the provider's, or SandboxTemplate, one of the same namespace.
	//
	// +kubebuilder:validation:Enum=Template;SandboxTemplate
	// +kubebuilder:default=Template
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the template.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// VolumeClaimTemplate is a volume that outlives the pod, written as in a StatefulSet.
type VolumeClaimTemplate struct {
	// Metadata is the name of the volume.
	Metadata VolumeClaimMetadata `json:"metadata"`
	// Spec is what the volume is.
	Spec VolumeClaimSpec `json:"spec"`
}

// VolumeClaimMetadata names a volume.
type VolumeClaimMetadata struct {
	// Name by which containers mount the volume.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// VolumeClaimSpec is what of a claim a tenant may write. It has no volumeName and no selector:
// with them a claim would take over a volume that another tenant has left.
type VolumeClaimSpec struct {
	// AccessModes default to ReadWriteOnce.
	//
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteOncePod
	// +listType=atomic
	// +optional
	AccessModes []string `json:"accessModes,omitempty"`

	// StorageClassName defaults to the class that the runtime cluster calls its default.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`

	// Resources says how large the volume is.
	Resources VolumeClaimResources `json:"resources"`
}

// VolumeClaimResources says how large a volume is.
type VolumeClaimResources struct {
	// Requests says how large the volume is.
	Requests VolumeClaimRequests `json:"requests"`
}

// VolumeClaimRequests holds the size of a volume.
type VolumeClaimRequests struct {
	// Storage in Mi or Gi.
	//
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}(Mi|Gi)$`
	Storage string `json:"storage"`
}

// PodTemplateFields says that tenants write a pod template for instances of the kind.
type PodTemplateFields struct {
	// From is the field of the tenant's spec: an object with podTemplate or templateRef, patch
	// and volumeClaimTemplates. Sandbar adds it to the schema; the graph must not have it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	From string `json:"from"`

	// To is the field of the graph's spec, "object | required=true", that gets the result:
	// template and volumeClaimTemplates, both of a StatefulSet's form. Tenants do not see it.
	// updateStrategy is there, and OnDelete, for a pod that was resized to what the template says:
	// a graph whose instances SandboxSets keep makes it the type of its StatefulSet's.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	To string `json:"to"`
}

// PodTemplateBase is a pod template that instances of other kinds may begin with.
type PodTemplateBase struct {
	// PodTemplate has metadata and spec, as in a Deployment. It is the operator's: a tenant's
	// patch cannot change what it says of nodes, priorities and the runtime class.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate runtime.RawExtension `json:"podTemplate"`

	// VolumeClaimTemplates are added to the tenant's, whose volume of the same name wins. An
	// instance keeps those that it began with.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}
