// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Baseline designates workloads that run on the runtime cluster, of which tenants may have copies, and says which
// workspaces may see them. It is in the provider workspace; tenants read it as a catalogue of the data plane.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=bl,categories=sandbar
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloadsFound`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.servicesFound`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Baseline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   BaselineSpec   `json:"spec"`
	Status BaselineStatus `json:"status,omitempty"`
}

// BaselineList is a list of Baselines.
//
// +kubebuilder:object:root=true
type BaselineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Baseline `json:"items"`
}

// BaselineSpec is what the operator offers.
type BaselineSpec struct {
	// DisplayName is the name that people see in a catalogue. Defaults to the name of the Baseline.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// Description says in a few sentences what runs there.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Description string `json:"description,omitempty"`

	// Namespaces are those of the runtime cluster in which the workloads are. The provider reads them once
	// sandbar-provider baseline grant has given it the right to, in each of them. No two may have the same alias.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, (has(a.__as__) ? a.__as__ : a.name) == (has(b.__as__) ? b.__as__ : b.name)))",message="two namespaces must not have the same alias: set as of one of them"
	// +listType=map
	// +listMapKey=name
	Namespaces []BaselineNamespace `json:"namespaces"`

	// Workspaces are those that may see the Baseline. Empty means none.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=path
	// +optional
	Workspaces []BaselineWorkspace `json:"workspaces,omitempty"`

	// Workloads says which workloads of the namespaces are part of it. Defaults to all of the kinds.
	//
	// +optional
	Workloads BaselineWorkloads `json:"workloads,omitempty"`

	// Services says which Services of the namespaces are part of it. Defaults to all.
	//
	// +optional
	Services BaselineServices `json:"services,omitempty"`

	// Images says which images a copy may run. Defaults to the workload's own.
	//
	// +optional
	Images BaselineImages `json:"images,omitempty"`

	// References says what of its namespace a copy gets copies of.
	//
	// +kubebuilder:default={}
	// +optional
	References BaselineReferences `json:"references,omitempty"`

	// Network says which way is open between the copies and the namespaces of the Baseline. Both are, by default.
	//
	// +optional
	Network BaselineNetwork `json:"network,omitempty"`

	// PodSecurity is the pod security level of the namespaces in which copies run: the images of a Baseline may need
	// more than a tenant's own may have. Defaults to that of all placements (spec.isolation.podSecurity of the
	// InfrastructureProvider). A level that the runtime cluster does not admit for placements is told in the status of each instance.
	//
	// +kubebuilder:validation:Enum=restricted;baseline;privileged
	// +optional
	PodSecurity string `json:"podSecurity,omitempty"`

	// Routing says where tenants may have requests routed to their copies. Defaults to nowhere.
	//
	// +optional
	Routing BaselineRouting `json:"routing,omitempty"`

	// Limits bounds what a workspace may have of the Baseline.
	//
	// +kubebuilder:default={}
	// +optional
	Limits BaselineLimits `json:"limits,omitempty"`

	// Disclosure is how much of a workload tenants see. Summary: its kind, name, replicas, and its containers with
	// their images and ports. Template: also the whole pod template, in the status of what is copied from it; the
	// catalogue shows the summary with either. Defaults to Summary.
	//
	// +kubebuilder:validation:Enum=Summary;Template
	// +kubebuilder:default=Summary
	// +optional
	Disclosure BaselineDisclosure `json:"disclosure,omitempty"`
}

// BaselineDisclosure is how much of a workload tenants see.
type BaselineDisclosure string

// How much of a workload tenants see.
const (
	BaselineDisclosureSummary  BaselineDisclosure = "Summary"
	BaselineDisclosureTemplate BaselineDisclosure = "Template"
)

// BaselineNamespace is a namespace of the runtime cluster.
type BaselineNamespace struct {
	// Name of the namespace. Those of Kubernetes, of kro and of Sandbar itself cannot be part of a Baseline: names that
	// begin with kube-, kro-, sandbar- or sb-.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(kube|kro|sandbar|sb)-')",message="is a namespace of Kubernetes, kro or Sandbar (kube-, kro-, sandbar-, sb-), which cannot be part of a Baseline"
	Name string `json:"name"`

	// As is the name by which tenants know the namespace. Defaults to name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	As string `json:"as,omitempty"`
}

// Alias is the name by which tenants know the namespace.
func (n BaselineNamespace) Alias() string {
	if n.As != "" {
		return n.As
	}
	return n.Name
}

// BaselineWorkspace is a workspace, or a workspace and all below it.
type BaselineWorkspace struct {
	// Path is the workspace's path as kcp knows it, for example root:acme.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^root(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Path string `json:"path"`

	// Recursive includes all workspaces below that path.
	//
	// +optional
	Recursive bool `json:"recursive,omitempty"`
}

// BaselineWorkloadKind is a kind of workload of the runtime cluster.
//
// +kubebuilder:validation:Enum=Deployment;StatefulSet;Rollout
type BaselineWorkloadKind string

// The kinds of workloads.
const (
	BaselineDeployment  BaselineWorkloadKind = "Deployment"  // apps/v1
	BaselineStatefulSet BaselineWorkloadKind = "StatefulSet" // apps/v1
	BaselineRollout     BaselineWorkloadKind = "Rollout"     // argoproj.io/v1alpha1
)

// BaselineWorkloadKinds are all kinds, in the order in which they are listed.
var BaselineWorkloadKinds = []BaselineWorkloadKind{BaselineDeployment, BaselineStatefulSet, BaselineRollout}

// BaselineWorkloads chooses workloads. With a selector and names, a workload has to match both.
type BaselineWorkloads struct {
	// Kinds defaults to Deployment, StatefulSet and, if the runtime cluster has that kind, Rollout.
	//
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Kinds []BaselineWorkloadKind `json:"kinds,omitempty"`

	// Selector is by the labels of the workload itself, not of its pods. Empty means all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Names are those of workloads, in any of the namespaces. Empty means all.
	//
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
}

// BaselineServices chooses Services. With a selector and names, a Service has to match both.
type BaselineServices struct {
	// Selector is by the labels of the Service itself. Empty means all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Names are those of Services, in any of the namespaces. Empty means all.
	//
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
}

// Conditions of a Baseline.
const (
	// BaselineFound is true when all that the spec names was found on the runtime cluster.
	BaselineFound = "Found"
	// BaselineReady sums up the others.
	BaselineReady = "Ready"
)

// Bounds of BaselineStatus.
const (
	// MaxBaselineWorkloads and MaxBaselineServices are how many of each a status lists.
	MaxBaselineWorkloads = 200
	MaxBaselineServices  = 200
	// MaxBaselineStatusBytes is the most that both lists have together, as JSON: an object has to fit into etcd.
	MaxBaselineStatusBytes = 512 << 10
	// MaxBaselineImage is how many characters of an image's reference are kept.
	MaxBaselineImage = 512
)

// BaselineStatus is what was found on the runtime cluster.
type BaselineStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Found and Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Workloads are the first of those that were found, by namespace, kind and name: at most 200, and less if they are
	// large.
	//
	// +listType=atomic
	// +optional
	Workloads []BaselineWorkload `json:"workloads,omitempty"`

	// Services are the first of those that were found, with the same bounds.
	//
	// +listType=atomic
	// +optional
	Services []BaselineService `json:"services,omitempty"`

	// WorkloadsFound is how many workloads there are.
	//
	// +optional
	WorkloadsFound int32 `json:"workloadsFound,omitempty"`

	// ServicesFound is how many Services there are.
	//
	// +optional
	ServicesFound int32 `json:"servicesFound,omitempty"`
}

// BaselineWorkload is a workload of a Baseline.
type BaselineWorkload struct {
	Kind BaselineWorkloadKind `json:"kind"`
	// Namespace is that of the runtime cluster.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas is how many the workload wants.
	Replicas int32 `json:"replicas"`
	// Containers are those of its pod template, without init containers.
	//
	// +listType=atomic
	// +optional
	Containers []BaselineContainer `json:"containers,omitempty"`
}

// BaselineContainer is a container of a workload.
type BaselineContainer struct {
	Name string `json:"name"`
	// Image is the image's reference, or the first 512 characters of it.
	//
	// +optional
	Image string `json:"image,omitempty"`
	// +listType=atomic
	// +optional
	Ports []BaselinePort `json:"ports,omitempty"`
}

// BaselineService is a Service of a Baseline.
type BaselineService struct {
	// Namespace is that of the runtime cluster.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// +listType=atomic
	// +optional
	Ports []BaselinePort `json:"ports,omitempty"`
}

// BaselinePort is a port of a container or of a Service.
type BaselinePort struct {
	// +optional
	Name string `json:"name,omitempty"`
	Port int32  `json:"port"`
	// Protocol is TCP, UDP or SCTP.
	//
	// +optional
	Protocol string `json:"protocol,omitempty"`
}
