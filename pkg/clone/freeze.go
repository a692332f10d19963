// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reservedDomain is that of Sandbar's own labels.
const reservedDomain = "sandbar.dev"

// Snapshot is what is kept of a workload. A group that has one goes on when its workload changes or is gone.
type Snapshot struct {
	Source   Source                 `json:"source"`
	Replicas int32                  `json:"replicas"`
	Template corev1.PodTemplateSpec `json:"template"`
	// ServicePorts are the ports of the containers, in the form of a Service's.
	ServicePorts []corev1.ServicePort `json:"servicePorts,omitempty"`
	// VolumeClaimTemplates are those of a StatefulSet.
	VolumeClaimTemplates []Claim `json:"volumeClaimTemplates,omitempty"`
	// Claims are the PersistentVolumeClaims that volumes of the template name (ClaimNames), sorted by name: as many as
	// were added.
	Claims []Claim `json:"claims,omitempty"`
}

// Claim is what matters of a PersistentVolumeClaim: how large the volume is and of which class.
type Claim struct {
	Name string                           `json:"name"`
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// Freeze keeps what a copy needs of a workload: a Deployment or StatefulSet of apps/v1, or a Rollout of
// argoproj.io/v1alpha1. referred is the Deployment that WorkloadRef names, nil if it names none. A *RefusedError says
// that of this workload there can be no copy; another error, that referred is missing.
func Freeze(workload, referred *unstructured.Unstructured) (*Snapshot, error) {
	source, spec, err := readWorkload(workload)
	if err != nil {
		return nil, err
	}
	template, err := templateOf(workload, referred, spec)
	if err != nil {
		return nil, err
	}
	if len(template.Spec.Containers) == 0 {
		return nil, refuse(NotCloneable, "the pod template of %s has no containers; copy another workload", source)
	}
	snapshot := &Snapshot{Source: source, Replicas: 1, Template: withoutLife(template), ServicePorts: inferPorts(&template.Spec)}
	if spec.Replicas != nil {
		snapshot.Replicas = *spec.Replicas
	}
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		snapshot.VolumeClaimTemplates = append(snapshot.VolumeClaimTemplates, Claim{Name: claim.Name, Spec: bareClaim(&claim.Spec)})
	}
	return snapshot, nil
}

// ClaimNames returns the names of the PersistentVolumeClaims, in the workload's namespace, that volumes of the template
// name, sorted. The caller reads them and calls AddClaim.
func (s *Snapshot) ClaimNames() []string {
	names := map[string]bool{}
	for i := range s.Template.Spec.Volumes {
		if claim := s.Template.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names[claim.ClaimName] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// AddClaim keeps the size and class of a PersistentVolumeClaim. One that is already there is replaced.
func (s *Snapshot) AddClaim(claim *corev1.PersistentVolumeClaim) {
	added := Claim{Name: claim.Name, Spec: bareClaim(&claim.Spec)}
	i, found := slices.BinarySearchFunc(s.Claims, claim.Name, func(c Claim, name string) int { return cmp.Compare(c.Name, name) })
	if found {
		s.Claims[i] = added
		return
	}
	s.Claims = slices.Insert(s.Claims, i, added)
}

// bareClaim keeps what an empty volume is asked for with. The attack: with volumeName, selector or a data source, the
// copy would take over or copy the workload's own data.
func bareClaim(spec *corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeClaimSpec {
	bare := corev1.PersistentVolumeClaimSpec{
		AccessModes: slices.Clone(spec.AccessModes), StorageClassName: spec.StorageClassName,
		VolumeMode: spec.VolumeMode, VolumeAttributesClassName: spec.VolumeAttributesClassName,
	}
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok {
		bare.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	return bare
}

// What controllers and commands write into the metadata of a pod template, for the life of their own object.
var (
	lifeLabels = []string{
		"pod-template-hash", "rollouts-pod-template-hash", "controller-revision-hash", "controller-uid", "job-name",
		"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
		"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
		"argocd.argoproj.io/instance",
	}
	lifeAnnotations = []string{
		"kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/last-applied-configuration",
		"deployment.kubernetes.io/revision", "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
		"rollout.argoproj.io/revision", "rollout.argoproj.io/desired-replicas", "rollout.argoproj.io/workload-generation",
		"argocd.argoproj.io/tracking-id", "reloader.stakater.com/last-reloaded-from",
	}
)

// withoutLife copies a pod template without what belongs to the life of the workload: its metadata but for labels and
// annotations, hashes and times of its controllers, and its place on a node.
func withoutLife(template *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	kept := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      without(template.Labels, lifeLabels),
			Annotations: without(template.Annotations, lifeAnnotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
	kept.Spec.EphemeralContainers = nil
	kept.Spec.NodeName = ""
	// A gate is lifted by a controller that watches the workload's namespace, and not that of the copy.
	kept.Spec.SchedulingGates = nil
	return kept
}

// without copies labels or annotations, but for some and for Sandbar's own. The attack: a label of Sandbar's on the
// workload would make its copy part of another placement.
func without(metadata map[string]string, names []string) map[string]string {
	var kept map[string]string
	for key, value := range metadata {
		if slices.Contains(names, key) || ownDomain(key) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}

// ownDomain reports whether a label or an annotation is in Sandbar's domain or below it.
func ownDomain(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == reservedDomain || strings.HasSuffix(domain, "."+reservedDomain))
}
