// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// sound fails the test unless a copy keeps the promises that hold for any component. It is written without the package's
// own checks.
func sound(t testing.TB, row *row, r *Rendered) {
	t.Helper()
	template := &r.Deployment.Spec.Template
	source := frozen(t, row.Source)
	for _, problem := range slices.Concat(
		soundLabels(r), soundSpec(row, &template.Spec, source), soundContainers(&template.Spec, &source.Template.Spec),
		soundVolumes(row, r), soundImages(row, &template.Spec, source), soundReferences(row, template, source),
	) {
		t.Errorf("the copy has %s", problem)
	}
}

func same(row *row) bool { return row.Rules.References.ServiceAccount == "Same" }

func soundLabels(r *Rendered) (problems []string) {
	want := map[string]string{
		placement.LabelInstanceUID: "our-uid", placement.LabelSandboxID: "sbx-abcd1234", placement.LabelManagedBy: placement.ManagedBy,
	}
	objects := []map[string]string{r.Deployment.Labels, r.Deployment.Spec.Template.Labels, r.Service.Labels}
	for _, claim := range r.Claims {
		objects = append(objects, claim.Labels)
	}
	for _, labels := range objects {
		for key, value := range want {
			if labels[key] != value {
				problems = append(problems, "label "+key+" is "+labels[key])
			}
		}
	}
	for _, selector := range []map[string]string{r.Deployment.Spec.Selector.MatchLabels, r.Service.Spec.Selector} {
		if len(selector) != 2 || selector[placement.LabelInstanceUID] != "our-uid" || selector[placement.LabelComponent] == "" {
			problems = append(problems, "a selector has other labels than Sandbar's")
		}
		for key, value := range selector {
			if r.Deployment.Spec.Template.Labels[key] != value {
				problems = append(problems, "a selector does not choose the pods")
			}
		}
	}
	return problems
}

func soundSpec(row *row, spec *corev1.PodSpec, source *Snapshot) (problems []string) {
	theirs := &source.Template.Spec
	for what, is := range map[string]bool{
		"the host's network":          spec.HostNetwork,
		"the host's processes":        spec.HostPID,
		"the host's IPC":              spec.HostIPC,
		"a node":                      spec.NodeName != "",
		"gates":                       len(spec.SchedulingGates) > 0,
		"ephemeral containers":        len(spec.EphemeralContainers) > 0,
		"another ServiceAccount":      spec.ServiceAccountName != "" && (!same(row) || spec.ServiceAccountName != theirs.ServiceAccountName),
		"a deprecated ServiceAccount": spec.DeprecatedServiceAccount != "",
		"another priority":            spec.PriorityClassName != theirs.PriorityClassName || spec.Priority != nil && theirs.Priority == nil,
		"another runtime class":       spec.RuntimeClassName != nil && theirs.RuntimeClassName == nil,
		"another scheduler":           spec.SchedulerName != theirs.SchedulerName,
		"more tolerations":            len(spec.Tolerations) > len(theirs.Tolerations),
		"affinity":                    spec.Affinity != nil && theirs.Affinity == nil,
		"the name of a node":          spec.NodeSelector["kubernetes.io/hostname"] != "",
		"a token of a ServiceAccount": !same(row) && (spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken),
		"users of the host by word":   spec.HostUsers != nil && *spec.HostUsers,
		"claims of devices":           len(spec.ResourceClaims) > 0,
	} {
		if is {
			problems = append(problems, what)
		}
	}
	if s := theirs.SecurityContext; s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot &&
		(spec.SecurityContext == nil || spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot) {
		problems = append(problems, "root, if its image says so")
	}
	for key, value := range theirs.NodeSelector {
		if spec.NodeSelector[key] != value {
			problems = append(problems, "left the nodes of its workload")
		}
	}
	return problems
}

func soundContainers(spec, theirs *corev1.PodSpec) (problems []string) {
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				problems = append(problems, "a port of the host")
			}
		}
		for _, m := range c.VolumeMounts {
			if m.SubPathExpr != "" || m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
				problems = append(problems, "a mount with a trick")
			}
		}
		own := containerOf(theirs, c.Name)
		if own == nil {
			own = &corev1.Container{}
		}
		problems = append(problems, soundSecurity(c.SecurityContext, own.SecurityContext)...)
	}
	return problems
}

func soundSecurity(security, theirs *corev1.SecurityContext) (problems []string) {
	if theirs == nil {
		theirs = &corev1.SecurityContext{}
	}
	if security == nil {
		security = &corev1.SecurityContext{}
	}
	if security.Privileged != nil && *security.Privileged && theirs.Privileged == nil {
		problems = append(problems, "a privileged container")
	}
	if theirs.AllowPrivilegeEscalation != nil && !*theirs.AllowPrivilegeEscalation &&
		(security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation) {
		problems = append(problems, "privileges that can grow")
	}
	if security.RunAsUser != nil && *security.RunAsUser == 0 && theirs.RunAsUser == nil {
		problems = append(problems, "root")
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{}
	}
	for _, c := range security.Capabilities.Add {
		if theirs.Capabilities == nil || !slices.Contains(theirs.Capabilities.Add, c) {
			problems = append(problems, "capability "+string(c))
		}
	}
	if theirs.Capabilities != nil && len(theirs.Capabilities.Drop) > 0 && !slices.Contains(security.Capabilities.Drop, "ALL") {
		problems = append(problems, "capabilities that the workload drops")
	}
	return problems
}

func soundVolumes(row *row, r *Rendered) (problems []string) {
	known := map[string]bool{}
	for _, claim := range r.Claims {
		known[claim.Name] = true
		if claim.Spec.VolumeName != "" || claim.Spec.Selector != nil || claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
			problems = append(problems, "a claim to data")
		}
	}
	for _, v := range r.Deployment.Spec.Template.Spec.Volumes {
		bare := v.VolumeSource
		if bare.PersistentVolumeClaim != nil && !known[bare.PersistentVolumeClaim.ClaimName] {
			problems = append(problems, "a claim of others")
		}
		if bare.Projected != nil {
			for _, p := range bare.Projected.Sources {
				if p.ServiceAccountToken != nil && !same(row) || p.PodCertificate != nil {
					problems = append(problems, "an identity")
				}
			}
		}
		bare.PersistentVolumeClaim, bare.Projected, bare.EmptyDir, bare.ConfigMap, bare.Secret, bare.DownwardAPI, bare.Ephemeral = nil, nil, nil, nil, nil, nil, nil
		if bare != (corev1.VolumeSource{}) {
			problems = append(problems, "a volume of another type")
		}
	}
	return problems
}

// soundImages: without a list, each image begins with one of the workload's repositories.
func soundImages(row *row, spec *corev1.PodSpec, source *Snapshot) (problems []string) {
	if len(row.Rules.Images.Allow) > 0 {
		return nil
	}
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		admitted := false
		for _, own := range slices.Concat(source.Template.Spec.Containers, source.Template.Spec.InitContainers) {
			repository, _, _ := strings.Cut(own.Image, "@")
			if at := strings.LastIndex(repository, ":"); at > strings.LastIndex(repository, "/") {
				repository = repository[:at]
			}
			rest, ok := strings.CutPrefix(canonical(c.Image), canonical(repository))
			admitted = admitted || ok && (rest == "" || rest[0] == ':' || rest[0] == '@')
		}
		if !admitted {
			problems = append(problems, "image "+c.Image)
		}
	}
	return problems
}

// canonical is another way to the long form of a name, for the few registries of the test's workloads.
func canonical(image string) string {
	head, rest, ok := strings.Cut(image, "/")
	if ok && strings.ContainsAny(head, ".:") {
		if head = strings.ToLower(head); head == "index.docker.io" {
			head = "docker.io"
		}
		if head == "docker.io" && !strings.Contains(rest, "/") {
			rest = "library/" + rest
		}
		return head + "/" + rest
	}
	if !ok {
		image = "library/" + image
	}
	return "docker.io/" + image
}

func soundReferences(row *row, template *corev1.PodTemplateSpec, source *Snapshot) (problems []string) {
	own := map[string]bool{}
	for _, ref := range References(&source.Template) {
		own[ref.Kind+"/"+ref.Name] = true
	}
	names := map[string][]string{KindConfigMap: row.Rules.References.ConfigMaps.Names, KindSecret: row.Rules.References.Secrets.Names}
	for _, ref := range References(template) {
		secret := ref.Kind == KindSecret
		copied := !secret && row.Rules.References.ConfigMaps.Policy != "Refuse" || secret && row.Rules.References.Secrets.Policy == "Copy"
		if ref.Name == rootCAConfigMap && !secret {
			continue
		}
		if !copied || len(names[ref.Kind]) == 0 && !own[ref.Kind+"/"+ref.Name] || len(names[ref.Kind]) > 0 && !slices.Contains(names[ref.Kind], ref.Name) {
			problems = append(problems, "a reference to "+ref.Kind+" "+ref.Name)
		}
	}
	for _, key := range slices.Collect(maps.Keys(template.Annotations)) {
		if strings.HasPrefix(key, "sandbar.dev/") || strings.HasPrefix(key, "container.apparmor") || strings.HasPrefix(key, "io.katacontainers") {
			problems = append(problems, "annotation "+key)
		}
	}
	return problems
}
