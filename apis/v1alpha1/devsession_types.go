// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bounds of a DevSession. Package devsession asks for them again, since a CRD can be edited.
const (
	// MaxDevSessionName is how long the name of a DevSession may be, in characters: its objects have its name and a suffix.
	MaxDevSessionName = 50
	// MaxDevSessionTargetPath is how long the target path may be, in characters.
	MaxDevSessionTargetPath = 256
	// MaxDevSessionCommand is how many words a command has at most, and MaxDevSessionWord how many characters a word has.
	MaxDevSessionCommand = 64
	MaxDevSessionWord    = 4096
)

// DefaultDevSessionStorage is how large the volume of a workspace is by default.
const DefaultDevSessionStorage = "10Gi"

// DevSession has a workload of a Sandbox edited live. A pod like the workload's own has the files of the image in a volume,
// starts the workload's command again when files change, and takes the requests of the workload's copy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=dvs,categories=sandbar
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a DevSession must be at most 50 characters long, begin with a letter and have only a-z, 0-9 and -: its Service has its name and -dev"
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.spec.sandboxRef.name`
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.workload`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.targetPath`,priority=1
type DevSession struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which workload is edited, and where.
	Spec DevSessionSpec `json:"spec"`
	// Status says how far the session is. The provider writes it.
	Status DevSessionStatus `json:"status,omitempty"`
}

// DevSessionList is a list of DevSessions.
//
// +kubebuilder:object:root=true
type DevSessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DevSession `json:"items"`
}

// DevSessionSpec does not change, but for the image.
//
// +kubebuilder:validation:XValidation:rule="has(self.containerName) == has(oldSelf.containerName) && (!has(self.containerName) || self.containerName == oldSelf.containerName)",message="containerName does not change; create another DevSession"
// +kubebuilder:validation:XValidation:rule="has(self.command) == has(oldSelf.command) && (!has(self.command) || self.command == oldSelf.command)",message="command does not change; create another DevSession"
type DevSessionSpec struct {
	// SandboxRef names the Sandbox with workloads, or the SandboxGroup, of the same namespace.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another DevSession"
	SandboxRef DevSessionSandbox `json:"sandboxRef"`

	// Workload is the name of the workload, or of the component, that is edited. A workload has one session at a time.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another DevSession"
	Workload string `json:"workload"`

	// TargetPath is the directory of the image that is edited, such as /app. The volume of the session begins with what the
	// image has there, and is mounted in its place. It is absolute, without . and .. and //, and none of the directories that
	// the pod mounts a volume at, lies in, or has below it.
	//
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/[^/]+)+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.]?(/|$)')",message="must be a clean path, without . and .."
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another DevSession"
	TargetPath string `json:"targetPath"`

	// ContainerName is the container of the pod that is edited. Defaults to the first.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ContainerName string `json:"containerName,omitempty"`

	// Image takes the place of the container's, one with tools for example. It has to be one that the Baseline admits for
	// the container. Defaults to that of the copy.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// Storage is the volume of the workspace.
	//
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another DevSession"
	// +optional
	Storage DevSessionStorage `json:"storage,omitempty"`

	// Command is what runs in the container, a program and its arguments, without a shell. Defaults to the command and the
	// arguments of the container. It is required for a container without a command: what its image starts by itself is not
	// known.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`
}

// DevSessionSandbox names a Sandbox with workloads, or a SandboxGroup, of the same namespace.
type DevSessionSandbox struct {
	// Name of the Sandbox, which is that of its SandboxGroup.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DevSessionStorage is the volume of a workspace.
type DevSessionStorage struct {
	// Size of the volume. Defaults to 10Gi.
	//
	// +kubebuilder:default="10Gi"
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// StorageClassName is the class of the runtime cluster. Defaults to the cluster's own default.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`

	// AccessModes of the volume. Defaults to ReadWriteOnce.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	// +listType=set
	// +kubebuilder:default={ReadWriteOnce}
	// +optional
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
}

// DevSessionPhase is one word for how far a session is.
type DevSessionPhase string

// Phases of a DevSession.
const (
	// DevSessionPending: the session does not take the requests of the workload yet, or not now.
	DevSessionPending DevSessionPhase = "Pending"
	// DevSessionReady: it takes them.
	DevSessionReady DevSessionPhase = "Ready"
	// DevSessionFailed: the spec is refused, or the files of the image do not fit; waiting alone changes nothing.
	DevSessionFailed DevSessionPhase = "Failed"
	// DevSessionDeleting: the workload's copy takes the requests again, and then the session and its volume go.
	DevSessionDeleting DevSessionPhase = "Deleting"
)

// Conditions of a DevSession.
const (
	// DevSessionResolvedCondition is True when a session can be made of the spec.
	DevSessionResolvedCondition = "Resolved"
	// DevSessionReadyCondition is True when the session takes the requests of the workload.
	DevSessionReadyCondition = "Ready"
)

// Reasons of DevSessionResolvedCondition.
const (
	// DevSessionResolved: a session can be made of the spec.
	DevSessionResolved = "Resolved"
	// DevSessionSandboxNotFound: the namespace has neither a Sandbox with workloads nor a SandboxGroup of the name.
	DevSessionSandboxNotFound = "SandboxNotFound"
	// DevSessionWorkloadNotFound: it has no such workload.
	DevSessionWorkloadNotFound = "WorkloadNotFound"
	// DevSessionContainerNotFound: the workload has no such container.
	DevSessionContainerNotFound = "ContainerNotFound"
	// DevSessionNotReady: the workload has no copy yet.
	DevSessionNotReady = "NotReady"
	// DevSessionAnother: the workload has another session.
	DevSessionAnother = "AnotherSession"
	// DevSessionInvalidSpec: a field of the spec is wrong for the workload.
	DevSessionInvalidSpec = "InvalidSpec"
	// DevSessionCommandRequired: the container names no command, and the spec has none either.
	DevSessionCommandRequired = "CommandRequired"
	// DevSessionNotAllowed: the Baseline does not admit the image, or is not for the workspace any more.
	DevSessionNotAllowed = "NotAllowed"
	// DevSessionNotDevelopable: the workload has what two pods cannot share, or what the runner would need itself.
	DevSessionNotDevelopable = "NotDevelopable"
	// DevSessionQuotaExceeded: the quota of the placement has no room for the volume.
	DevSessionQuotaExceeded = "QuotaExceeded"
	// DevSessionProviderUnavailable: the provider lacks the image of the runner, or offers no SandboxGroups.
	DevSessionProviderUnavailable = "ProviderUnavailable"
)

// Reasons of DevSessionReadyCondition, beside the causes of pods, such as ImageNotPullable.
const (
	// DevSessionServing: the session takes the requests of the workload.
	DevSessionServing = "Serving"
	// DevSessionNotResolved: no session can be made of the spec; Resolved says why.
	DevSessionNotResolved = "NotResolved"
	// DevSessionStarting: the pod of the session is not ready yet.
	DevSessionStarting = "PodStarting"
	// DevSessionSwitching: requests are on their way from the copy to the session.
	DevSessionSwitching = "Switching"
	// DevSessionSuspended: the Sandbox is suspended.
	DevSessionSuspended = "Suspended"
	// DevSessionVolumeTooSmall: the files of the image do not fit into the volume.
	DevSessionVolumeTooSmall = "VolumeTooSmall"
	// DevSessionCopyFailed: the files of the image could not be copied into the volume.
	DevSessionCopyFailed = "CopyFailed"
	// DevSessionEnding: the session is being deleted.
	DevSessionEnding = "Ending"
)

// DevSessionStatus says how far a session is.
type DevSessionStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is one word for how far the session is.
	//
	// +kubebuilder:validation:Enum=Pending;Ready;Failed;Deleting
	// +optional
	Phase DevSessionPhase `json:"phase,omitempty"`

	// DeploymentName, PVCName and ServiceName are the objects of the session in the placement of the Sandbox.
	//
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// +optional
	PVCName string `json:"pvcName,omitempty"`
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// ContainerName is the container that is edited.
	//
	// +optional
	ContainerName string `json:"containerName,omitempty"`

	// Ports are those of the workload's Service, which lead to the session while it is Ready.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Ports []DevSessionPort `json:"ports,omitempty"`

	// DataPlane says where the verbs of the session are served.
	//
	// +optional
	DataPlane *InstanceDataPlane `json:"dataPlane,omitempty"`

	// Conditions are Resolved and Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MaxDevSessionPorts is how many ports a status shows.
const MaxDevSessionPorts = 64

// DevSessionPort is a port of the workload's Service.
type DevSessionPort struct {
	// Name of the port; a Service with one port may have none.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Port of the Service.
	Port int32 `json:"port"`

	// TargetPort is the number or the name of the port of the pod.
	//
	// +kubebuilder:validation:XIntOrString
	TargetPort intstr.IntOrString `json:"targetPort"`
}

func init() { builtInTypes = append(builtInTypes, &DevSession{}, &DevSessionList{}) }
