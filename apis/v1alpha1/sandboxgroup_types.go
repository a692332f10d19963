// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AnnotationResnapshot of an instance that has copies of workloads has all of them frozen again, once for each value: a time as
// RFC 3339 has it, such as 2026-11-28T17:00:00Z.
const AnnotationResnapshot = "sandbar.dev/resnapshot"

// Bounds of a SandboxGroup. Package clone asks for them again, since a Template's schema can be edited.
const (
	// MaxSandboxGroupComponents is how many components a group has at most.
	MaxSandboxGroupComponents = 16
	// MaxPodTemplatePatchOperations and MaxPodTemplatePatchBytes bound the patch of a component; the bytes are those of
	// its JSON.
	MaxPodTemplatePatchOperations = 64
	MaxPodTemplatePatchBytes      = 64 << 10
)

// SandboxGroupSpec is what a tenant writes: which workloads of a Baseline the group has copies of, and what of them is
// changed.
type SandboxGroupSpec struct {
	// BaselineRef names the Baseline. Defaults to the only one for the workspace that has a namespace with the name of the object's.
	//
	// +optional
	BaselineRef *BaselineRef `json:"baselineRef,omitempty"`

	// Components are the copies, one Deployment with a Service each.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Components []SandboxGroupComponent `json:"components"`
}

// BaselineRef names a Baseline.
type BaselineRef struct {
	// Name of the Baseline, as sandbar baselines lists it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SandboxGroupComponent is a copy of one workload. The copy is always a Deployment, <group>-<component>-sbx, with a
// Service, <group>-<component>-svc.
type SandboxGroupComponent struct {
	// Name of the component. It is part of the names of what is made of it: the names of the group and of the component
	// have at most 58 characters together.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// SourceRef names the workload. Its pod template is frozen when it is found first, and again when the reference
	// changes or the group is created again; what happens to the workload later changes no copy.
	SourceRef WorkloadReference `json:"sourceRef"`

	// Overrides change the copy field by field.
	//
	// +optional
	Overrides *WorkloadOverrides `json:"overrides,omitempty"`

	// PodTemplatePatch is a JSON patch (RFC 6902) of the pod template, applied after the overrides. It changes what is
	// below /spec, /metadata/labels and /metadata/annotations, and is at most 64 KiB of JSON. What isolates the pod stays
	// as it is in the workload: its node, priority, identity, and security context.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	PodTemplatePatch []PatchOperation `json:"podTemplatePatch,omitempty"`

	// Service changes the Service of the copy. Defaults to a Service with the ports of the workload's containers.
	//
	// +optional
	Service *SandboxGroupService `json:"service,omitempty"`
}

// WorkloadReference names a workload of a Baseline.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'Rollout') == (self.apiVersion == 'argoproj.io/v1alpha1')",message="a Rollout is of argoproj.io/v1alpha1, a Deployment and a StatefulSet are of apps/v1"
type WorkloadReference struct {
	// APIVersion is apps/v1 for a Deployment or a StatefulSet, and argoproj.io/v1alpha1 for a Rollout.
	//
	// +kubebuilder:validation:Enum="apps/v1";"argoproj.io/v1alpha1"
	APIVersion string `json:"apiVersion"`

	// Kind is Deployment, StatefulSet or Rollout.
	Kind BaselineWorkloadKind `json:"kind"`

	// Name of the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Namespace is the alias that the Baseline gives to the workload's namespace. Defaults to the namespace of the group.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// WorkloadOverrides change a copy field by field. What they leave out stays as it is in the workload.
type WorkloadOverrides struct {
	// Replicas of the copy, at most the limits.replicas of the Baseline. Defaults to those of the workload, or to that
	// limit if the workload has more.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// DeploymentLabels are added to the labels of the Deployment. Keys without a domain (tier, not example.com/tier) are
	// free, as are name, version, component and part-of of app.kubernetes.io and sidecar.istio.io/inject; others have to be on the operator's
	// allow-list. This holds for all labels here.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	DeploymentLabels map[string]string `json:"deploymentLabels,omitempty"`

	// DeploymentAnnotations are the annotations of the Deployment: those of the workload itself are not copied. Keys
	// with neither a slash nor a dot are free, as are sidecar.istio.io/inject, prometheus.io/scrape, port, path and
	// scheme, and kubectl.kubernetes.io/default-container and default-logs-container; others have to be on the operator's
	// allow-list. This holds for all annotations here.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	DeploymentAnnotations map[string]string `json:"deploymentAnnotations,omitempty"`

	// TemplateLabels are added to the labels of the pod template.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	TemplateLabels map[string]string `json:"templateLabels,omitempty"`

	// TemplateAnnotations are added to the annotations of the pod template.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	TemplateAnnotations map[string]string `json:"templateAnnotations,omitempty"`

	// Containers change containers and init containers of the workload, by their names.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []ContainerOverride `json:"containers,omitempty"`
}

// ContainerOverride changes one container.
type ContainerOverride struct {
	// Name of the container in the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Image replaces the image. Its repository has to be one that the Baseline admits (images.allow), by default that of
	// the container's own image; tag and digest are free.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// Command replaces the command.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// Args replace the arguments.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// Env is merged into the container's variables by name. A value is written out, or comes from a ConfigMap or Secret
	// that the copy has, or from a field of the pod.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources replace the requests and limits.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// PatchOperation is an operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	// Op is what is done.
	//
	// +kubebuilder:validation:Enum=add;remove;replace;move;copy;test
	Op string `json:"op"`

	// Path is a JSON pointer (RFC 6901) into the pod template, for example /spec/nodeSelector. A slash in a key is written
	// ~1, and ~ is written ~0.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/(spec/|metadata/(labels|annotations)(/|$))`
	Path string `json:"path"`

	// From is a JSON pointer, for move and copy.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/(spec/|metadata/(labels|annotations)(/|$))`
	// +optional
	From string `json:"from,omitempty"`

	// Value is any JSON but null, for add, replace and test.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// SandboxGroupService changes the Service of a copy.
type SandboxGroupService struct {
	// Type is ClusterIP: a sandbox has neither node ports nor load balancers of its own.
	//
	// +kubebuilder:validation:Enum=ClusterIP
	// +kubebuilder:default=ClusterIP
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// Labels are added to the labels of the Service.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the Service.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Ports replace those of the workload's containers. targetPort defaults to port, protocol to TCP, and name to
	// port-<port>. nodePort cannot be set.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Ports []corev1.ServicePort `json:"ports,omitempty"`
}
