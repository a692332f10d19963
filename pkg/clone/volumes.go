// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// claimName is the name of the PersistentVolumeClaim of a volume in the placement. The name of a component has no dot, so
// that two components never mean the same claim.
func (r *rendering) claimName(volume string) string {
	return r.Group + "-" + r.Component.Name + "." + volume
}

// replaceVolumes puts into the place of persistent volumes what the Baseline says. The volumes of a StatefulSet's claim
// templates are added, in the place of those of the same name. The list keeps its order: patches count on it.
func (r *rendering) replaceVolumes() {
	spec := &r.template.Spec
	templates := r.Snapshot.VolumeClaimTemplates
	// A claim is named for the first volume that has it: two volumes of one claim stay that.
	first := map[string]string{}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if slices.ContainsFunc(templates, func(t Claim) bool { return t.Name == v.Name }) {
			continue
		}
		if claim := v.PersistentVolumeClaim; claim != nil {
			if first[claim.ClaimName] == "" {
				first[claim.ClaimName] = v.Name
			}
			v.VolumeSource = r.standIn(first[claim.ClaimName], r.snapshotClaim(claim.ClaimName), claim.ReadOnly)
		} else if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			r.replaceEphemeral(v)
		}
	}
	for i := range templates {
		volume := corev1.Volume{Name: templates[i].Name, VolumeSource: r.standIn(templates[i].Name, &templates[i].Spec, false)}
		at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
		if at < 0 {
			spec.Volumes = append(spec.Volumes, volume)
			continue
		}
		spec.Volumes[at] = volume
	}
}

// replaceEphemeral keeps a volume that is as old as its pod: it is fresh already.
func (r *rendering) replaceEphemeral(v *corev1.Volume) {
	bare := bareClaim(&v.Ephemeral.VolumeClaimTemplate.Spec)
	v.Ephemeral.VolumeClaimTemplate = &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: r.labels()}, Spec: bare}
	if r.volumePolicy() == sandbarv1alpha1.BaselineVolumesEmptyDir {
		v.VolumeSource = r.standIn(v.Name, &bare, false)
	}
}

func (r *rendering) volumePolicy() sandbarv1alpha1.BaselineVolumes {
	if policy := r.Rules.References.Volumes; policy != "" {
		return policy
	}
	return sandbarv1alpha1.BaselineVolumesFresh
}

// snapshotClaim is what was frozen of a PersistentVolumeClaim; nil if nothing was.
func (r *rendering) snapshotClaim(name string) *corev1.PersistentVolumeClaimSpec {
	for i := range r.Snapshot.Claims {
		if r.Snapshot.Claims[i].Name == name {
			return &r.Snapshot.Claims[i].Spec
		}
	}
	return nil
}

// standIn is what stands in the place of a persistent volume. One that is refused, or of which nothing is known, still
// names a claim: the patch may remove the volume, and checkVolumes refuses it otherwise.
func (r *rendering) standIn(volume string, claim *corev1.PersistentVolumeClaimSpec, readOnly bool) corev1.VolumeSource {
	block := claim != nil && claim.VolumeMode != nil && *claim.VolumeMode == corev1.PersistentVolumeBlock
	if r.volumePolicy() == sandbarv1alpha1.BaselineVolumesEmptyDir && !block {
		empty := &corev1.EmptyDirVolumeSource{}
		if claim != nil {
			if size, ok := claim.Resources.Requests[corev1.ResourceStorage]; ok {
				empty.SizeLimit = &size
			}
		}
		return corev1.VolumeSource{EmptyDir: empty}
	}
	name := r.claimName(volume)
	if claim != nil && r.volumePolicy() == sandbarv1alpha1.BaselineVolumesFresh {
		r.claims[name] = *claim
	}
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

// checkVolumes refuses volumes of which there can be no copy.
func (r *rendering) checkVolumes(source *corev1.PodTemplateSpec) error {
	for i := range r.template.Spec.Volumes {
		v := &r.template.Spec.Volumes[i]
		at := fmt.Sprintf("spec.volumes[%d] (%s)", i, v.Name)
		switch {
		case !copyable(v.VolumeSource):
			return refuse(VolumeNotCloneable, "%s of %s is neither a configMap, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected nor secret: a copy would use the workload's own data or its node's; "+
				"put an emptyDir into its place by podTemplatePatch, or copy another workload", at, r.Snapshot.Source)
		case v.PersistentVolumeClaim != nil:
			if err := r.checkClaim(at, v.PersistentVolumeClaim.ClaimName, source); err != nil {
				return err
			}
		case v.Ephemeral != nil && r.volumePolicy() == sandbarv1alpha1.BaselineVolumesRefuse:
			return r.volumesRefused(at)
		}
	}
	return nil
}

// copyable reports whether a volume has no other types than these. The attack: a volume of the network, of a driver or of
// the node is the workload's own data, which the copy would write to; and an emptyDir beside it changes nothing.
func copyable(volume corev1.VolumeSource) bool {
	volume.ConfigMap, volume.DownwardAPI, volume.EmptyDir, volume.Ephemeral, volume.Image = nil, nil, nil, nil, nil
	volume.PersistentVolumeClaim, volume.Projected, volume.Secret = nil, nil, nil
	return volume == corev1.VolumeSource{}
}

func (r *rendering) volumesRefused(at string) error {
	return refuse(VolumeNotCloneable, "%s of %s is a persistent volume, and Baseline %s refuses those; put an emptyDir into its place by podTemplatePatch, or ask the operator to set references.volumes to Fresh or EmptyDir", at, r.Snapshot.Source, r.Rules.Baseline)
}

// checkClaim refuses claims that are not of this component.
func (r *rendering) checkClaim(at, name string, source *corev1.PodTemplateSpec) error {
	if _, ok := r.claims[name]; ok {
		return nil
	}
	own := slices.ContainsFunc(source.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
	})
	switch {
	case !own:
		return refuse(NotAllowed, "%s.persistentVolumeClaim.claimName: %s is not a claim of the workload; use an emptyDir, or the claim of another volume of the workload", at, name)
	case r.volumePolicy() == sandbarv1alpha1.BaselineVolumesRefuse:
		return r.volumesRefused(at)
	case r.volumePolicy() == sandbarv1alpha1.BaselineVolumesEmptyDir:
		return refuse(VolumeNotCloneable, "%s of %s is a block device, which no emptyDir can stand for; remove it by podTemplatePatch, or ask the operator to set references.volumes to Fresh", at, r.Snapshot.Source)
	}
	return refuse(VolumeNotCloneable, "%s of %s names a PersistentVolumeClaim that was not found, so that its size is not known; put an emptyDir into its place by podTemplatePatch, or ask the operator to create the claim and make the group again", at, r.Snapshot.Source)
}

// mountedClaims are the claims that the pod still has after the patch, sorted by name.
func (r *rendering) mountedClaims() []*corev1.PersistentVolumeClaim {
	used := map[string]bool{}
	for i := range r.template.Spec.Volumes {
		if claim := r.template.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			used[claim.ClaimName] = true
		}
	}
	var claims []*corev1.PersistentVolumeClaim
	for _, name := range slices.Sorted(maps.Keys(used)) {
		spec := r.claims[name]
		claims = append(claims, &corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.labels()},
			Spec:       *spec.DeepCopy(),
		})
	}
	return claims
}

// strategyFor is how pods are replaced. A volume of one node, or of one pod, is not there for a new pod before the old one
// is gone: a rolling update would wait for ever.
func strategyFor(claims []*corev1.PersistentVolumeClaim) appsv1.DeploymentStrategy {
	for _, claim := range claims {
		if !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) {
			return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}
	}
	return appsv1.DeploymentStrategy{}
}
