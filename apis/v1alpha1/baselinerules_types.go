// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// BaselineImages says which images a copy may run.
type BaselineImages struct {
	// Allow are the repositories of images, without tag and digest, that a tenant may put in the place of a container's
	// own. The registry is written out, or is docker.io: nginx means docker.io/library/nginx. A * in the path matches
	// within one segment: ghcr.io/acme/* admits ghcr.io/acme/web, and neither ghcr.io/acme nor ghcr.io/acme/web/debug.
	// Defaults to the repository of the image that the container of that name has in the workload. The workload's own
	// images are admitted in any case.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('**')",message="** has no meaning here: write a * for each segment of the path, as in ghcr.io/acme/*/*"
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9*._-]+(/[a-z0-9*._-]+)*$`
	// +listType=set
	// +optional
	Allow []string `json:"allow,omitempty"`
}

// BaselineReferences says what of its namespace a copy gets copies of.
type BaselineReferences struct {
	// ConfigMaps that a copy refers to. The policy defaults to Copy.
	//
	// +kubebuilder:default={policy: Copy}
	// +optional
	ConfigMaps BaselineSharedConfigMaps `json:"configMaps,omitempty"`

	// Secrets that a copy refers to. The policy defaults to Refuse.
	//
	// +kubebuilder:default={policy: Refuse}
	// +optional
	Secrets BaselineSharedSecrets `json:"secrets,omitempty"`

	// ServiceAccount is None: a copy has no identity on the runtime cluster. Defaults to None.
	//
	// +kubebuilder:validation:Enum=None
	// +kubebuilder:default=None
	// +optional
	ServiceAccount BaselineServiceAccount `json:"serviceAccount,omitempty"`

	// Volumes says what stands in the place of PersistentVolumeClaims. Fresh: an empty claim of the same size and class.
	// EmptyDir: a directory that ends with the pod. Refuse: a workload that has some cannot be copied. Defaults to Fresh.
	//
	// +kubebuilder:validation:Enum=Fresh;EmptyDir;Refuse
	// +kubebuilder:default=Fresh
	// +optional
	Volumes BaselineVolumes `json:"volumes,omitempty"`
}

// BaselineSharedConfigMaps says which ConfigMaps are copied.
type BaselineSharedConfigMaps struct {
	// Policy is Copy or Refuse. Defaults to Copy.
	//
	// +kubebuilder:validation:Enum=Copy;Refuse
	// +kubebuilder:default=Copy
	// +optional
	Policy BaselineSharing `json:"policy,omitempty"`

	// Names are the ones that are copied, and that tenants may refer to in addition to what the workload refers to.
	// Defaults to those that the workload itself refers to.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
}

// BaselineSharedSecrets says which Secrets are copied. A tenant that has a copy can read it, by exec at the latest.
type BaselineSharedSecrets struct {
	// Policy is Copy or Refuse. Defaults to Refuse.
	//
	// +kubebuilder:validation:Enum=Copy;Refuse
	// +kubebuilder:default=Refuse
	// +optional
	Policy BaselineSharing `json:"policy,omitempty"`

	// Names are the ones that are copied, and that tenants may refer to in addition to what the workload refers to.
	// Defaults to those that the workload itself refers to.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
}

// BaselineSharing says whether objects of a Baseline's namespace are copied.
type BaselineSharing string

// Whether objects are copied.
const (
	BaselineCopy   BaselineSharing = "Copy"
	BaselineRefuse BaselineSharing = "Refuse"
)

// BaselineServiceAccount says which ServiceAccount a copy has.
type BaselineServiceAccount string

// Which ServiceAccount a copy has.
const (
	BaselineServiceAccountNone BaselineServiceAccount = "None"
	BaselineServiceAccountSame BaselineServiceAccount = "Same"
)

// BaselineVolumes says what stands in the place of PersistentVolumeClaims.
type BaselineVolumes string

// What stands in the place of PersistentVolumeClaims.
const (
	BaselineVolumesFresh    BaselineVolumes = "Fresh"
	BaselineVolumesEmptyDir BaselineVolumes = "EmptyDir"
	BaselineVolumesRefuse   BaselineVolumes = "Refuse"
)

// DefaultBaselineReplicas is the default of BaselineLimits.Replicas.
const DefaultBaselineReplicas = 3

// BaselineLimits bounds what a workspace may have of a Baseline.
type BaselineLimits struct {
	// Replicas is how many replicas a copy may have. Defaults to 3.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=3
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// BaselineNetwork says which way is open between copies and their Baseline.
type BaselineNetwork struct {
	// ReachBaseline lets copies open connections to the pods of the Baseline's namespaces, and find its Services by their
	// short names. Defaults to true.
	//
	// +optional
	ReachBaseline *bool `json:"reachBaseline,omitempty"`

	// ReachableFromBaseline lets pods of the Baseline's namespaces open connections to copies. Defaults to true.
	//
	// +optional
	ReachableFromBaseline *bool `json:"reachableFromBaseline,omitempty"`
}

// ReachesBaseline reports whether copies may open connections to the Baseline.
func (n BaselineNetwork) ReachesBaseline() bool { return n.ReachBaseline == nil || *n.ReachBaseline }

// IsReachableFromBaseline reports whether the Baseline's pods may open connections to copies.
func (n BaselineNetwork) IsReachableFromBaseline() bool {
	return n.ReachableFromBaseline == nil || *n.ReachableFromBaseline
}
