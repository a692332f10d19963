// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Mode is the value of spec.mode of an instance whose Template has a development contract.
type Mode string

const (
	// ModeProduction runs the graph as its author wrote it.
	ModeProduction Mode = "production"
	// ModeDevelopment runs the Template's development components from their workspaces.
	ModeDevelopment Mode = "development"
)

// Development is the development contract of a kind. A part of the graph that is not listed
// runs as in production in both modes.
type Development struct {
	// Components maps a component's name to how it is developed. The name is also that of the
	// component's verbs, …/components/<name>/<verb>; at most 32 lower-case letters and digits,
	// a letter first.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Components map[string]DevelopmentComponent `json:"components"`
}

// DevelopmentComponent says how one container of one workload is developed: its image and its
// command are replaced by a toolchain and the runner; all else of the pod stays as it is.
type DevelopmentComponent struct {
	// Workload is the id of the graph's resource, a Deployment or a StatefulSet. Defaults to the
	// component's name.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Workload string `json:"workload,omitempty"`

	// Container is the container of the workload's pods. Defaults to the first.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Container string `json:"container,omitempty"`

	// WorkspacePath is the directory of the project that belongs to this component, relative to
	// the project's root; "." for the whole project.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WorkspacePath string `json:"workspacePath"`

	// Image is the key of the toolchain's image in InfrastructureProvider.spec.images. The image
	// needs /bin/sh; it never is a tenant's choice.
	//
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]{0,56}$`
	Image string `json:"image"`

	// WorkingDir is where the workspace's volume is mounted and the process runs.
	//
	// +kubebuilder:default=/workspace
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/(workspace|app|srv)(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// StartCommand is what /bin/sh -c runs in workingDir. It is taken as it is: neither kro nor
	// Kubernetes expands anything in it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	StartCommand string `json:"startCommand"`

	// Port is the name of the container's port at which the process serves. With it, the process
	// gets the number as PORT and the component gets the verb proxy. Empty means that the
	// process serves nothing.
	//
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Port string `json:"port,omitempty"`

	// StorageSize is the size of the workspace's volume, which outlives a switch of the mode.
	//
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}(Mi|Gi)$`
	// +optional
	StorageSize string `json:"storageSize,omitempty"`

	// Resources are those of the container in development. Defaults to what it has in
	// production; a toolchain often needs more.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Reload says what follows a sync.
	//
	// +optional
	Reload *Reload `json:"reload,omitempty"`
}

// Reload says what the runner does when files of the workspace have changed by a sync.
type Reload struct {
	// Rules are looked at in order; each that matches a changed path is run once per sync.
	//
	// +kubebuilder:validation:MaxItems=16
	Rules []ReloadRule `json:"rules"`
}

// ReloadRule runs a command, or restarts the process, when certain paths have changed.
//
// +kubebuilder:validation:XValidation:rule="has(self.command) || !has(self.restart) || self.restart",message="a rule without a command must restart"
type ReloadRule struct {
	// Paths are patterns of changed paths, relative to the component's workspace, in the syntax
	// of a .gitignore line: without a slash it is matched against every name of a path, with one
	// against the path from the workspace's root; ** stands for any directories.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Paths []string `json:"paths"`

	// Command is what /bin/sh -c runs in workingDir before the process is restarted. When it
	// fails, the process goes on as it was and the sync says so.
	//
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Command string `json:"command,omitempty"`

	// Restart restarts the process afterwards. Defaults to true.
	//
	// +kubebuilder:default=true
	// +optional
	Restart *bool `json:"restart,omitempty"`
}
