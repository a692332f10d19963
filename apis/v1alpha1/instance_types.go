// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceStatus is what Sandbar adds to the status of every kind of instance. A graph's own
// status fields stand beside these; a graph must not use these names.
type InstanceStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is one word for people; programs read the conditions.
	//
	// +optional
	Phase InstancePhase `json:"phase,omitempty"`

	// Conditions are Placed, Composed, Suspended and Ready, and Lost after a loss.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// DataPlane says where the instance's verbs are served.
	//
	// +optional
	DataPlane *InstanceDataPlane `json:"dataPlane,omitempty"`

	// Activity says when the instance was last used.
	//
	// +optional
	Activity *InstanceActivity `json:"activity,omitempty"`

	// Suspension is set while the instance is suspended.
	//
	// +optional
	Suspension *InstanceSuspension `json:"suspension,omitempty"`

	// Start says how the instance came to be. An instance that started before the provider recorded this has none.
	//
	// +optional
	Start *InstanceStart `json:"start,omitempty"`

	// CreatedBy is the user who created the instance; nil if that is not known.
	//
	// +optional
	CreatedBy *InstanceCreator `json:"createdBy,omitempty"`
}

// AnnotationCreatedBy holds, on an object of any kind of Sandbar's, the user name of its creator, written by the client
// that created it. An admission policy of the provider workspace refuses another name, and any change of it later.
const AnnotationCreatedBy = "sandbar.dev/created-by"

// InstanceCreator is the user who created an instance.
type InstanceCreator struct {
	// Username is the user's name, as kcp knows it.
	Username string `json:"username"`
}

// Types of InstanceStart.
const (
	// StartWarm: the instance took a sandbox that a set had ready.
	StartWarm = "Warm"
	// StartCold: all of it was made for the instance.
	StartCold = "Cold"
)

// Reasons of a cold start.
const (
	// StartNoSet: no set of the namespace has the template, with the pod that it has now.
	StartNoSet = "NoSet"
	// StartSetEmpty: a set has it, and had none that was ready.
	StartSetEmpty = "SetEmpty"
	// StartPrewarmNone: spec.prewarm is None.
	StartPrewarmNone = "PrewarmNone"
	// StartOwnPodTemplate: the pod is the instance's own, and not that of a template.
	StartOwnPodTemplate = "OwnPodTemplate"
	// StartPatchDiffers: the instance patches the template.
	StartPatchDiffers = "PatchDiffers"
	// StartVolumesDiffer: the instance has volumes of its own.
	StartVolumesDiffer = "VolumesDiffer"
	// StartSuspended: the instance was to be suspended from the start.
	StartSuspended = "Suspended"
	// StartResizeInfeasible: those that the sets had could not get the resources of their template in place. Of a warm start
	// with spec.resize BestEffort it says that the instance has kept the resources of the set.
	StartResizeInfeasible = "ResizeInfeasible"
	// StartEnvNeedsColdStart: the instance has variables of its own, and its template has no runtime that gives them to a pod
	// which runs.
	StartEnvNeedsColdStart = "EnvNeedsColdStart"
	// StartUnknown: the provider could not write why, for example because it ended in between.
	StartUnknown = "Unknown"
)

// InstanceStart is how an instance came to be.
type InstanceStart struct {
	// Type is Warm or Cold.
	Type string `json:"type"`

	// Reason is why the start was cold, or, if that is ResizeInfeasible, why a warm one has not the resources of the template.
	// It is empty for kinds that no set keeps ready.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// Set is the one that the instance took a sandbox of.
	//
	// +optional
	Set *InstanceStartSet `json:"set,omitempty"`

	// Resized is set if the sandbox had other resources in its set, and got those of its template without a restart.
	//
	// +optional
	Resized *InstanceStartResized `json:"resized,omitempty"`

	// +optional
	Times InstanceStartTimes `json:"times,omitempty"`

	// Steps are those that the pods of the instance took until it was first Ready, in their order: Kubernetes' own times, by
	// the clocks of the runtime cluster. A step is there once all pods have taken it; of a warm start only what came after
	// the instance took its sandbox. A time before that of the step that it follows, by a node whose clock is behind, is
	// left out. Steps are written along with other changes of the status, and stay as they were when the instance was
	// first Ready.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	Steps []InstanceStartStep `json:"steps,omitempty"`
}

// Names of InstanceStartStep, in their order.
const (
	// StepScheduled: the pod has a node. It is the pod's condition PodScheduled.
	StepScheduled = "Scheduled"
	// StepReadyToStartContainers: the pod's volumes are mounted and its network is set up. It is the pod's condition
	// PodReadyToStartContainers. After it, images are pulled and containers are created.
	StepReadyToStartContainers = "ReadyToStartContainers"
	// StepInitialized: the init containers have ended, and those that stay have started. It is the condition Initialized of
	// a pod that has init containers.
	StepInitialized = "Initialized"
	// StepStarted: the containers run, each for the last time that it was started.
	StepStarted = "Started"
	// StepPodReady: the pod is ready. It is the pod's condition Ready.
	StepPodReady = "PodReady"
)

// InstanceStartStep is a step on the way of an instance's pods.
type InstanceStartStep struct {
	// Name is Scheduled, ReadyToStartContainers, Initialized, Started or PodReady.
	Name string `json:"name"`

	// Time is when the last of the pods took the step, in whole seconds: Kubernetes keeps no more of it.
	Time metav1.Time `json:"time"`
}

// InstanceStartResized is what the containers of a sandbox had together in its set, and what they have since.
type InstanceStartResized struct {
	From InstanceResources `json:"from"`
	To   InstanceResources `json:"to"`
}

// InstanceResources are CPU and memory of all containers together.
type InstanceResources struct {
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// InstanceStartSet names a SandboxSet.
type InstanceStartSet struct {
	Name string `json:"name"`
}

// InstanceStartTimes are the moments of a start, with microseconds where they are known.
type InstanceStartTimes struct {
	// Requested is when the object was created, in whole seconds: kcp keeps no more of it.
	//
	// +optional
	Requested *metav1.MicroTime `json:"requested,omitempty"`

	// Placed is when its sandbox became its own.
	//
	// +optional
	Placed *metav1.MicroTime `json:"placed,omitempty"`

	// Ready is when it was first Ready.
	//
	// +optional
	Ready *metav1.MicroTime `json:"ready,omitempty"`
}

// InstanceDataPlane is where an instance's verbs are served.
type InstanceDataPlane struct {
	// URL is the base of the instance's verbs: append /log, /sync, /proxy/….
	URL string `json:"url"`

	// Verbs are the verbs that the instance has, sorted; those of a component as
	// components/<component>/<verb>.
	//
	// +listType=set
	// +optional
	Verbs []string `json:"verbs,omitempty"`
}

// InstanceActivity says when an instance was last used.
type InstanceActivity struct {
	// LastActiveTime is when a data-plane request last reached the instance.
	//
	// +optional
	LastActiveTime *metav1.Time `json:"lastActiveTime,omitempty"`
}

// InstancePhase is one word for the state of an instance.
type InstancePhase string

// LastWordsMark stands in the message of a condition before the end of the log of a container that does not
// stay up.
const LastWordsMark = "Its last words: "

// Phases of an instance.
const (
	// InstancePending: the placement is not there yet.
	InstancePending InstancePhase = "Pending"
	// InstancePendingCapacity: the runtime cluster, or a quota, has no room for a pod now.
	InstancePendingCapacity InstancePhase = "PendingCapacity"
	// InstanceMaterializing: kro is composing the instance's resources.
	InstanceMaterializing InstancePhase = "Materializing"
	// InstanceReady: all resources are ready.
	InstanceReady InstancePhase = "Ready"
	// InstanceDegraded: the instance was ready and a part of it is not any more, or its changed
	// spec is refused while what it was before still serves.
	InstanceDegraded InstancePhase = "Degraded"
	// InstanceSuspending: the instance's pods are being released.
	InstanceSuspending InstancePhase = "Suspending"
	// InstanceSuspended: the instance has no pods; see status.suspension.
	InstanceSuspended InstancePhase = "Suspended"
	// InstanceSleeping: as Suspended, because nobody used it; the next request wakes it.
	InstanceSleeping InstancePhase = "Sleeping"
	// InstanceWaking: the instance was suspended or asleep and is coming back.
	InstanceWaking InstancePhase = "Waking"
	// InstanceFailed: something failed and does not mend itself; see the conditions.
	InstanceFailed InstancePhase = "Failed"
	// InstanceDeleting: the placement is being removed.
	InstanceDeleting InstancePhase = "Deleting"
)

// Conditions of an instance, in the order in which they come true.
const (
	// InstancePlaced is true when the instance's namespace with its isolation exists.
	InstancePlaced = "Placed"
	// InstanceComposed is true when kro has made all resources of the graph.
	InstanceComposed = "Composed"
	// InstanceSuspendedCondition is true when the instance is meant to have no pods, whether or
	// not they are gone yet. It states the intent; Ready's reason tells how far it has come.
	InstanceSuspendedCondition = "Suspended"
	// InstanceReadyCondition is true when the instance can be used now.
	InstanceReadyCondition = "Ready"
	// InstanceLostCondition is there, and true, after somebody other than the tenant and the provider
	// has deleted what the instance had on the runtime cluster; it goes with the next change of the spec.
	InstanceLostCondition = "Lost"
)
