// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Kinds of a Reference.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

const (
	// reservedName begins the names of Secrets and ConfigMaps that a placement has of its own. The attack: a copy under
	// such a name would take the place of the placement's, or a pod would read the placement's for a copy.
	reservedName = "sandbar-"
	// rootCAConfigMap is in each namespace, also in a placement: Kubernetes keeps it there.
	rootCAConfigMap = "kube-root-ca.crt"
)

// Reference is a ConfigMap or Secret that a pod template refers to.
type Reference struct {
	// Kind is KindConfigMap or KindSecret.
	Kind, Name string
	// Optional: the pod starts without it.
	Optional bool
	// Path is the field of the pod template.
	Path string
}

// References lists all that a pod template refers to, in the order of its fields: variables of its containers, init
// containers and ephemeral containers, volumes, and the Secrets with which images are pulled.
func References(template *corev1.PodTemplateSpec) []Reference {
	var all []Reference
	visitReferences(&template.Spec, func(ref Reference) bool {
		all = append(all, ref)
		return true
	})
	return all
}

// visitReferences calls keep with each reference, and removes those for which it is false. A volume that is removed
// becomes an empty directory: that is what an optional Secret that is not there is for a pod.
func visitReferences(spec *corev1.PodSpec, keep func(Reference) bool) {
	visit := func(kind, path, name string, optional *bool) bool {
		return keep(Reference{Kind: kind, Name: name, Optional: optional != nil && *optional, Path: path})
	}
	for i := range spec.Containers {
		visitContainer(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i], visit)
	}
	for i := range spec.InitContainers {
		visitContainer(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i], visit)
	}
	for i := range spec.EphemeralContainers {
		visitContainer(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), visit)
	}
	for i := range spec.Volumes {
		visitVolume(fmt.Sprintf("spec.volumes[%d]", i), &spec.Volumes[i], visit)
	}
	spec.ImagePullSecrets = keepIf(spec.ImagePullSecrets, func(i int, s corev1.LocalObjectReference) bool {
		return visit(KindSecret, fmt.Sprintf("spec.imagePullSecrets[%d]", i), s.Name, nil)
	})
}

// visitor is asked about one reference.
type visitor func(kind, path, name string, optional *bool) bool

func visitContainer(at string, c *corev1.Container, visit visitor) {
	c.EnvFrom = keepIf(c.EnvFrom, func(i int, from corev1.EnvFromSource) bool {
		path := fmt.Sprintf("%s.envFrom[%d]", at, i)
		return (from.ConfigMapRef == nil || visit(KindConfigMap, path+".configMapRef", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)) &&
			(from.SecretRef == nil || visit(KindSecret, path+".secretRef", from.SecretRef.Name, from.SecretRef.Optional))
	})
	c.Env = keepIf(c.Env, func(i int, env corev1.EnvVar) bool {
		from := env.ValueFrom
		if from == nil {
			return true
		}
		path := fmt.Sprintf("%s.env[%d].valueFrom", at, i)
		return (from.ConfigMapKeyRef == nil || visit(KindConfigMap, path+".configMapKeyRef", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)) &&
			(from.SecretKeyRef == nil || visit(KindSecret, path+".secretKeyRef", from.SecretKeyRef.Name, from.SecretKeyRef.Optional))
	})
}

func visitVolume(at string, v *corev1.Volume, visit visitor) {
	kept := (v.ConfigMap == nil || visit(KindConfigMap, at+".configMap", v.ConfigMap.Name, v.ConfigMap.Optional)) &&
		(v.Secret == nil || visit(KindSecret, at+".secret", v.Secret.SecretName, v.Secret.Optional))
	if !kept {
		v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		return
	}
	if v.Projected == nil {
		return
	}
	v.Projected.Sources = keepIf(v.Projected.Sources, func(i int, source corev1.VolumeProjection) bool {
		path := fmt.Sprintf("%s.projected.sources[%d]", at, i)
		return (source.ConfigMap == nil || visit(KindConfigMap, path+".configMap", source.ConfigMap.Name, source.ConfigMap.Optional)) &&
			(source.Secret == nil || visit(KindSecret, path+".secret", source.Secret.Name, source.Secret.Optional))
	})
}

// keepIf keeps the elements for which keep is true. A list of which all are kept stays the same one.
func keepIf[E any](list []E, keep func(int, E) bool) []E {
	var removed []int
	for i, element := range list {
		if !keep(i, element) {
			removed = append(removed, i)
		}
	}
	for _, i := range slices.Backward(removed) {
		list = slices.Delete(list, i, i+1)
	}
	return list
}

// shared is what has to be copied.
type shared struct {
	configMaps, secrets []Needed
}

// settleReferences drops optional references to what is not shared, refuses others, and returns what has to be copied.
func (r *rendering) settleReferences() (*shared, error) {
	own := map[string]bool{}
	for _, ref := range References(&r.Snapshot.Template) {
		own[ref.Kind+"/"+ref.Name] = true
	}
	var refused error
	found := map[string]map[string]bool{KindConfigMap: {}, KindSecret: {}} // by kind and name: all are optional
	visitReferences(&r.template.Spec, func(ref Reference) bool {
		switch {
		case r.shares(ref, own[ref.Kind+"/"+ref.Name]):
			optional, has := found[ref.Kind][ref.Name]
			found[ref.Kind][ref.Name] = ref.Optional && (optional || !has)
		case ref.Optional:
			r.notes.add(ReferenceDropped, "%s: %s %s is optional and is not shared by Baseline %s, so that the copy has none; if it needs it, %s", ref.Path, ref.Kind, ref.Name, r.Rules.Baseline, r.operator(listOf(ref.Kind)))
			return false
		case refused == nil:
			refused = r.notShared(ref, own[ref.Kind+"/"+ref.Name])
		}
		return true
	})
	delete(found[KindConfigMap], rootCAConfigMap)
	return &shared{configMaps: needed(found[KindConfigMap]), secrets: needed(found[KindSecret])}, refused
}

func needed(optional map[string]bool) []Needed {
	var all []Needed
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		all = append(all, Needed{Name: name, Optional: optional[name]})
	}
	return all
}

// shares reports whether a copy may refer to an object. own: the workload does so itself. Without names, a policy of
// Copy is about the workload's own references. The attack: a tenant's variable that names the Secret of another workload
// of the namespace.
func (r *rendering) shares(ref Reference, own bool) bool {
	policy, names := r.Rules.References.ConfigMaps.Policy, r.Rules.References.ConfigMaps.Names
	byDefault := sandbarv1alpha1.BaselineCopy
	if ref.Kind == KindSecret {
		policy, names = r.Rules.References.Secrets.Policy, r.Rules.References.Secrets.Names
		byDefault = sandbarv1alpha1.BaselineRefuse
	}
	if policy == "" {
		policy = byDefault
	}
	switch {
	case ref.Kind == KindConfigMap && ref.Name == rootCAConfigMap:
		return true
	case ref.Name == "" || strings.HasPrefix(ref.Name, reservedName) || policy != sandbarv1alpha1.BaselineCopy:
		return false
	case len(names) > 0:
		return slices.Contains(names, ref.Name)
	}
	return own
}

func listOf(kind string) string {
	if kind == KindSecret {
		return "references.secrets"
	}
	return "references.configMaps"
}

func (r *rendering) notShared(ref Reference, own bool) error {
	reason := RenderFailed
	if ref.Kind == KindSecret {
		reason = SecretNotShared
	}
	switch {
	case ref.Name == "":
		return refuse(InvalidSpec, "%s: names no %s; give its name, or remove the reference", ref.Path, ref.Kind)
	case strings.HasPrefix(ref.Name, reservedName):
		return refuse(NotAllowed, "%s: %s %s has a name that begins with %s, as those of Sandbar itself; remove the reference", ref.Path, ref.Kind, ref.Name, reservedName)
	case own:
		return refuse(reason, "%s: %s %s is not shared by Baseline %s; remove the reference by podTemplatePatch, or %s", ref.Path, ref.Kind, ref.Name, r.Rules.Baseline, r.operator(listOf(ref.Kind)))
	}
	return refuse(reason, "%s: %s %s is not one that %s refers to; remove the reference, or %s", ref.Path, ref.Kind, ref.Name, r.Snapshot.Source, r.operator(listOf(ref.Kind)+".names"))
}
