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

// override changes the template as the overrides say. What they may not say is found later, with the patch.
func (r *rendering) override() error {
	o := r.overrides()
	for _, m := range []metadata{
		{field: "overrides.templateLabels", set: o.TemplateLabels, allowed: r.labelAllowed},
		{field: "overrides.templateAnnotations", set: o.TemplateAnnotations, allowed: r.annotationAllowed, annotations: true},
	} {
		if err := m.check(); err != nil {
			return err
		}
	}
	r.template.Labels = merged(r.template.Labels, o.TemplateLabels)
	r.template.Annotations = merged(r.template.Annotations, o.TemplateAnnotations)
	seen := map[string]bool{}
	for i := range o.Containers {
		change := &o.Containers[i]
		at := fmt.Sprintf("overrides.containers[%d].name", i)
		if seen[change.Name] {
			return refuse(InvalidSpec, "%s: %q is there twice; merge both", at, change.Name)
		}
		seen[change.Name] = true
		container := containerOf(&r.template.Spec, change.Name)
		if container == nil {
			return refuse(RenderFailed, "%s: container %q is not in %s; it has %s", at, change.Name, r.Snapshot.Source, strings.Join(containerNames(&r.template.Spec), ", "))
		}
		overrideContainer(container, change)
	}
	return nil
}

func merged(into, from map[string]string) map[string]string {
	if len(from) == 0 {
		return into
	}
	all := maps.Clone(into)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, from)
	return all
}

// containerOf finds a container or init container; nil if there is none of the name.
func containerOf(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// containerNames are those of the containers, and then of the init containers.
func containerNames(spec *corev1.PodSpec) []string {
	var names []string
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return names
}

// overrideContainer replaces image, command, args and resources, and merges env by name.
func overrideContainer(container *corev1.Container, change *sandbarv1alpha1.ContainerOverride) {
	if change.Image != "" {
		container.Image = change.Image
	}
	if len(change.Command) > 0 {
		container.Command = slices.Clone(change.Command)
	}
	if len(change.Args) > 0 {
		container.Args = slices.Clone(change.Args)
	}
	if change.Resources != nil {
		container.Resources = *change.Resources.DeepCopy()
	}
	for i := range change.Env {
		container.Env = withVariable(container.Env, *change.Env[i].DeepCopy())
	}
}

// withVariable replaces the variable of a name where it is, or adds it. Of a name that is there twice, Kubernetes takes
// the last one.
func withVariable(env []corev1.EnvVar, variable corev1.EnvVar) []corev1.EnvVar {
	for i, e := range slices.Backward(env) {
		if e.Name == variable.Name {
			env[i] = variable
			return env
		}
	}
	return append(env, variable)
}

// replicas are the tenant's, or those of the workload within the Baseline's limit.
func (r *rendering) replicas() (int32, error) {
	most := r.Rules.Limits.Replicas
	if most == 0 {
		most = sandbarv1alpha1.DefaultBaselineReplicas
	}
	own := r.overrides().Replicas
	switch {
	case own == nil && r.Snapshot.Replicas > most:
		r.notes.add(ReplicasLimited, "%s has %d replicas, and the copy has %d: the most that Baseline %s admits (limits.replicas)", r.Snapshot.Source, r.Snapshot.Replicas, most, r.Rules.Baseline)
		return most, nil
	case own == nil:
		return r.Snapshot.Replicas, nil
	case *own < 0:
		return 0, refuse(InvalidSpec, "overrides.replicas: %d is less than 0; give a number from 0 to %d", *own, most)
	case *own > most:
		return 0, refuse(NotAllowed, "overrides.replicas: %d are more than the %d that Baseline %s admits (limits.replicas); give at most that, or ask its operator for more", *own, most, r.Rules.Baseline)
	}
	return *own, nil
}
