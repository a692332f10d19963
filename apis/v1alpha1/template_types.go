// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Template defines one kind of instance: a graph of runtime resources, the data-plane verbs
// of its instances and how they are developed. Applying a Template gives every bound
// workspace a new API; see status.conditions for how far that has come.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=tmpl,categories=sandbar
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.status.kind`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.status.instances`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.phase`
// +kubebuilder:printcolumn:name="Updated",type=integer,priority=1,JSONPath=`.status.rollout.updated`
// +kubebuilder:printcolumn:name="Failed",type=integer,priority=1,JSONPath=`.status.rollout.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Template struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   TemplateSpec   `json:"spec"`
	Status TemplateStatus `json:"status,omitempty"`
}

// TemplateList is a list of Templates.
//
// +kubebuilder:object:root=true
type TemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Template `json:"items"`
}

// TemplateSpec is what the operator wants of a kind of instance.
type TemplateSpec struct {
	// DisplayName is the name that people see in a catalogue.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	DisplayName string `json:"displayName"`

	// Description says in a few sentences what an instance is for.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Description string `json:"description,omitempty"`

	// Category groups Templates in a catalogue, for example "Developer" or "Database".
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Category string `json:"category,omitempty"`

	// Version is the semantic version of this Template (https://semver.org), for people;
	// the schema that tenants get is named by its content.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`
	Version string `json:"version"`

	// Graph is the spec of a kro ResourceGraphDefinition (kro.run/v1alpha1), verbatim: schema
	// and resources. kro checks it and makes the kind's CRD from it.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Graph runtime.RawExtension `json:"graph"`

	// Conversions give instances that were made under a former schema of the graph the form of the present one. An
	// instance that the new schema admits when it is converted does not hold the Template up. Once a workspace has the
	// new schema, the provider writes the result into the tenants' objects. Keep a conversion for as long as there may
	// be instances of the former form.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=field
	// +optional
	Conversions []Conversion `json:"conversions,omitempty"`

	// DataPlane declares the verbs of the kind's instances and where each one leads.
	//
	// +optional
	DataPlane DataPlane `json:"dataPlane,omitempty"`

	// Development says how instances are developed: which parts of them run from a workspace,
	// under the runner, while an instance's spec.mode is "development". Nil means that they
	// cannot be.
	//
	// +optional
	Development *Development `json:"development,omitempty"`

	// PodTemplate says that tenants write a pod template for instances of this kind, and where
	// the graph takes it from. Nil means that they do not.
	//
	// +optional
	PodTemplate *PodTemplateFields `json:"podTemplate,omitempty"`

	// Clones says that instances of this kind are copies of workloads of a Baseline, and where the graph takes them
	// from. A Template with podTemplate, imageChoice or development cannot have it. Nil means that they are not.
	//
	// +optional
	Clones *CloneFields `json:"clones,omitempty"`

	// Compound says that instances of this kind may have workloads in the place of the pod template, and of which Template
	// the instances are that are made for them. A Template without podTemplate cannot have it. Nil means that they may not.
	//
	// +optional
	Compound *CompoundFields `json:"compound,omitempty"`

	// ImageChoice lets tenants choose one of the operator's images by a field of the spec. Nil means
	// that they cannot.
	//
	// +optional
	ImageChoice *ImageChoice `json:"imageChoice,omitempty"`

	// Base is a pod template that instances of kinds with a pod template may begin with, by
	// templateRef. Nil means that this Template offers none.
	//
	// +optional
	Base *PodTemplateBase `json:"base,omitempty"`

	// Rollout says how changes of this Template reach its instances that run. What is not set is as
	// the InfrastructureProvider says.
	//
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// Agent is guidance for programs that choose a Template.
	//
	// +optional
	Agent *AgentGuidance `json:"agent,omitempty"`
}

// ImageChoice is a field of the spec by which tenants choose one of the operator's images. The graph
// reads an image that a provider may lack as an optional value, platform.data.?goImage.orValue("");
// an instance that chooses an image which is missing is refused, with the images that there are.
type ImageChoice struct {
	// Field is the name of a field directly below spec, a string. Its value is one of images.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]*$`
	Field string `json:"field"`

	// Images are the keys in InfrastructureProvider.spec.images that can be chosen.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-z][A-Za-z0-9]{0,56}$`
	// +listType=set
	Images []string `json:"images"`
}

// AgentGuidance tells a program what a Template is good for and what it yields.
type AgentGuidance struct {
	// Usage says when to choose this Template and what to set.
	//
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Usage string `json:"usage,omitempty"`

	// Outputs names what an instance offers when it is Ready.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Outputs []string `json:"outputs,omitempty"`
}

// DataPlane is the data-plane contract of a kind.
type DataPlane struct {
	// TokenSecretRef is the path in the runtime instance to the Secret whose key "token" the
	// provider shows, as controlAuth says, to the endpoints with a serviceRef, never to the
	// verb "proxy". The path starts with "status." and leads to {name, namespace}. Empty means
	// that none is shown.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^status(\.[a-zA-Z][a-zA-Z0-9]*)+$`
	// +optional
	TokenSecretRef string `json:"tokenSecretRef,omitempty"`

	// ControlAuth says how pods are shown that a request comes from the provider. "Token" sends
	// the token. "Proof" proves to have it, by an HMAC that is good for one request to one pod,
	// to every pod with a container whose environment has SANDBAR_POD_UID from metadata.uid, as
	// sandbar-runner wants it; other pods get the token. Defaults to Token, and to Proof where
	// development fills in tokenSecretRef.
	//
	// +optional
	ControlAuth ControlAuth `json:"controlAuth,omitempty"`

	// Endpoints maps a verb (a DNS label) to its endpoint.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Endpoints map[string]Endpoint `json:"endpoints,omitempty"`

	// WakeTimeout is how long a request to a sleeping instance is held while the instance
	// wakes; after it the caller gets 503 with Retry-After, and the waking goes on. Between one
	// second and ten minutes; defaults to one minute.
	//
	// +optional
	WakeTimeout *metav1.Duration `json:"wakeTimeout,omitempty"`

	// Components holds the same for the parts of an instance: the verbs of component "api"
	// are served at …/components/api/<verb>.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Components map[string]Component `json:"components,omitempty"`

	// EachComponent holds the same for parts that the tenant names, and the Template does not know, such as
	// copies of workloads (spec.clones): …/components/<name>/<verb>. Its endpoints lead to Pods by podsOf.
	//
	// +optional
	EachComponent *Component `json:"eachComponent,omitempty"`
}

// ControlAuth is a way to show a pod that a request comes from the provider.
//
// +kubebuilder:validation:Enum=Token;Proof
type ControlAuth string

// Ways to show that.
const (
	// ControlAuthToken sends the token as X-Sandbox-Control-Token.
	ControlAuthToken ControlAuth = "Token"
	// ControlAuthProof proves to have it, as X-Sandbox-Control-Proof, to pods that take proofs.
	ControlAuthProof ControlAuth = "Proof"
)

// Component is the data-plane contract of one part of an instance.
type Component struct {
	// Endpoints maps a verb (a DNS label) to its endpoint.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Endpoints map[string]Endpoint `json:"endpoints"`
}

// Endpoint says where one verb leads. It has exactly one of serviceRef, podRef, podsOf and from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.serviceRef), has(self.podRef), has(self.podsOf), has(self.from)].filter(x, x).size() == 1",message="exactly one of serviceRef, podRef, podsOf and from must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceRef) || has(self.port)",message="serviceRef needs port, the name of the Service's port"
// +kubebuilder:validation:XValidation:rule="has(self.from) || (has(self.methods) && self.methods.size() > 0)",message="methods must name at least one HTTP method"
// +kubebuilder:validation:XValidation:rule="!(has(self.podRef) || has(self.podsOf)) || has(self.podSubresource)",message="podRef and podsOf need podSubresource"
// +kubebuilder:validation:XValidation:rule="!has(self.upgrade) || !self.upgrade || self.methods.exists(m, m == 'GET')",message="upgrade needs the method GET"
type Endpoint struct {
	// ServiceRef is the path in the runtime instance's status to the Service, {name, namespace}.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^status(\.[a-zA-Z][a-zA-Z0-9]*)+$`
	// +optional
	ServiceRef string `json:"serviceRef,omitempty"`

	// Port is the name of the Service's port. With the podSubresource "proxy" it is the port that
	// a caller gets who names none, by the name of a container's port or by number; without it
	// callers must name one.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Port string `json:"port,omitempty"`

	// UpstreamPath is the path at the Service under which the verb lives; the caller's tail is
	// appended and cannot leave it. Defaults to "/".
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._~/-]*$`
	// +optional
	UpstreamPath string `json:"upstreamPath,omitempty"`

	// PodRef is the path in the runtime instance's status to a Pod, {name, namespace}, for
	// workloads without a runner.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^status(\.[a-zA-Z][a-zA-Z0-9]*)+$`
	// +optional
	PodRef string `json:"podRef,omitempty"`

	// PodsOf chooses the Pod by a label of the instance's Pods. "Component" takes one of those with
	// sandbar.dev/component: <the component that the caller names>: a Pod that is ready before one that
	// is not, then the oldest. It is for eachComponent only.
	//
	// +kubebuilder:validation:Enum=Component
	// +optional
	PodsOf string `json:"podsOf,omitempty"`

	// PodSubresource is what of the Pod answers. "log" is its log. "exec", "attach" and
	// "portforward" are WebSockets that speak what kubectl speaks (v5.channel.k8s.io, and SPDY
	// tunnelled for portforward); they need upgrade and the method GET alone. "proxy" leads to
	// the port that the caller names, at …/ports/<name or number>/proxy; it is for the verb
	// proxy only.
	//
	// +kubebuilder:validation:Enum=log;exec;attach;portforward;proxy
	// +optional
	PodSubresource string `json:"podSubresource,omitempty"`

	// Container is the container of the Pod that log, exec and attach are about; callers cannot
	// choose another. If it is empty they can, and get the Pod's first if they do not.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Container string `json:"container,omitempty"`

	// From serves the verb without a pod: "instanceStatus" answers the status of the tenant's
	// own object, "password" the password in the placement's Secret sandbar-password, which the
	// provider has made; it takes the method POST alone.
	//
	// +kubebuilder:validation:Enum=instanceStatus;password
	// +optional
	From string `json:"from,omitempty"`

	// Methods are the HTTP methods that the verb takes. GET includes HEAD.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS
	// +listType=set
	// +optional
	Methods []string `json:"methods,omitempty"`

	// Stream marks an endpoint whose response goes on for as long as the caller wants.
	//
	// +optional
	Stream bool `json:"stream,omitempty"`

	// Upgrade allows WebSocket upgrades. Without it an upgrade is refused.
	//
	// +optional
	Upgrade bool `json:"upgrade,omitempty"`

	// StreamDurationSeconds bounds how long a stream of this endpoint lasts, which has stream or
	// upgrade. Defaults to the provider's limit of the same name, above which it has no effect.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StreamDurationSeconds int32 `json:"streamDurationSeconds,omitempty"`
}

// Conditions of a Template, in the order in which they come true.
const (
	// TemplateGraphAccepted is true when kro has accepted the graph and serves its CRD.
	TemplateGraphAccepted = "GraphAccepted"
	// TemplateSchemaPublished is true when the kind's schema exists as an APIResourceSchema.
	TemplateSchemaPublished = "SchemaPublished"
	// TemplateExported is true when the APIExport offers that schema and tenants may use it.
	TemplateExported = "Exported"
	// TemplateReady is true when a tenant could create an instance now.
	TemplateReady = "Ready"
)

// TemplateStatus is what has become of a Template.
type TemplateStatus struct {
	// ObservedGeneration is the generation that the conditions speak of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are GraphAccepted, SchemaPublished, Exported, RolledOut and Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Kind is the kind of the instances.
	//
	// +optional
	Kind string `json:"kind,omitempty"`

	// Group is the API group of the instances.
	//
	// +optional
	Group string `json:"group,omitempty"`

	// Version is the API version of the instances.
	//
	// +optional
	Version string `json:"version,omitempty"`

	// Resource is the plural resource name of the instances.
	//
	// +optional
	Resource string `json:"resource,omitempty"`

	// SchemaName is the APIResourceSchema that the export offers for this kind.
	//
	// +optional
	SchemaName string `json:"schemaName,omitempty"`

	// DataPlane is the contract that is in force: that of the last generation that was accepted, with
	// the verbs of development.
	//
	// +optional
	DataPlane *DataPlane `json:"dataPlane,omitempty"`

	// Conversions are those that are in force: those of the last generation whose kind the runtime cluster serves.
	//
	// +listType=map
	// +listMapKey=field
	// +optional
	Conversions []Conversion `json:"conversions,omitempty"`

	// RuntimeSchema names the schema under which the runtime cluster serves the kind: UID and
	// generation of its CustomResourceDefinition. It changes with every change of that schema. A
	// client that caches objects of the kind must then list them again.
	//
	// +optional
	RuntimeSchema string `json:"runtimeSchema,omitempty"`

	// Instances is how many instances exist in all workspaces.
	//
	// +optional
	Instances int64 `json:"instances"`

	// Rollout is how far the Template's present revision has reached its instances.
	//
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}
