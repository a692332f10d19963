// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Groups and kinds of workloads.
const (
	groupApps     = "apps"
	groupRollouts = "argoproj.io"

	kindDeployment  = "Deployment"
	kindStatefulSet = "StatefulSet"
	kindRollout     = "Rollout"
)

// Source is the workload that was copied.
type Source struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Namespace is that of the runtime cluster, and not its alias.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Digest changes when the reference leads to another workload. The UID is not part of it: a workload that was deleted and
// created again is the same source.
func (s Source) Digest() string {
	// No part can have a zero byte, so that no two sources have the same text.
	return digestOf([]byte(strings.Join([]string{s.Group, s.Kind, s.Namespace, s.Name}, "\x00")))
}

// String names the workload as messages do.
func (s Source) String() string { return s.Kind + " " + s.Name }

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// workloadSpec is what matters of the spec of all three kinds.
type workloadSpec struct {
	Replicas             *int32                         `json:"replicas"`
	Template             corev1.PodTemplateSpec         `json:"template"`
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	WorkloadRef          *workloadRef                   `json:"workloadRef"`
}

// workloadRef is where a Rollout has its pod template if not in itself.
type workloadRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// WorkloadRef returns the name of the Deployment that has the pod template of a Rollout (spec.workloadRef), in the
// Rollout's namespace. It is empty for a workload that has a pod template of its own. The error is a *RefusedError.
func WorkloadRef(workload *unstructured.Unstructured) (string, error) {
	source, spec, err := readWorkload(workload)
	if err != nil || spec.WorkloadRef == nil {
		return "", err
	}
	ref := spec.WorkloadRef
	if ref.Kind != kindDeployment || ref.APIVersion != groupApps+"/v1" {
		return "", refuse(NotCloneable, "spec.workloadRef of %s leads to %s of %s, and only a Deployment of apps/v1 can be followed; copy another workload", source, ref.Kind, ref.APIVersion)
	}
	return ref.Name, nil
}

// readWorkload reads a workload. Fields that this version of Kubernetes' types does not know are left out.
func readWorkload(workload *unstructured.Unstructured) (Source, *workloadSpec, error) {
	gvk := workload.GroupVersionKind()
	source := Source{Group: gvk.Group, Kind: gvk.Kind, Namespace: workload.GetNamespace(), Name: workload.GetName()}
	known := gvk.Version == "v1" && gvk.Group == groupApps && (gvk.Kind == kindDeployment || gvk.Kind == kindStatefulSet) ||
		gvk.Version == "v1alpha1" && gvk.Group == groupRollouts && gvk.Kind == kindRollout
	if !known {
		return source, nil, refuse(SourceKindUnsupported, "sourceRef: %s of %s cannot be copied; use a Deployment or a StatefulSet of apps/v1, or a Rollout of argoproj.io/v1alpha1", gvk.Kind, gvk.GroupVersion())
	}
	fields, ok := workload.Object["spec"].(map[string]any)
	if !ok {
		return source, nil, refuse(NotCloneable, "%s has no spec; copy another workload", source)
	}
	spec := &workloadSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
		return source, nil, refuse(NotCloneable, "the spec of %s cannot be read: %v; copy another workload, or ask the operator to repair it", source, err)
	}
	if gvk.Kind != kindRollout {
		spec.WorkloadRef = nil
	}
	if gvk.Kind != kindStatefulSet {
		spec.VolumeClaimTemplates = nil
	}
	return source, spec, nil
}

// templateOf returns the pod template of a workload: its own, or that of the Deployment that it refers to.
func templateOf(workload, referred *unstructured.Unstructured, spec *workloadSpec) (*corev1.PodTemplateSpec, error) {
	name, err := WorkloadRef(workload)
	if err != nil || name == "" {
		return &spec.Template, err
	}
	if referred == nil || referred.GetName() != name || referred.GetNamespace() != workload.GetNamespace() || referred.GetKind() != kindDeployment {
		return nil, fmt.Errorf("freezing Rollout %s needs Deployment %s of its namespace (spec.workloadRef)", workload.GetName(), name)
	}
	_, theirs, err := readWorkload(referred)
	if err != nil {
		return nil, err
	}
	return &theirs.Template, nil
}
