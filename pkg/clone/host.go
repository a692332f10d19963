// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// maxContainers and maxVolumes are how many a copy may have, if its workload has no more. A quota does not count what
	// hundreds of them cost the node.
	maxContainers = 32
	maxVolumes    = 64
)

// limitIdentity takes the workload's identity on the runtime cluster from the copy, unless the Baseline gives it one of
// the same name.
func (r *rendering) limitIdentity() {
	spec := &r.template.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = ""
	if r.sameAccount() {
		return
	}
	if spec.ServiceAccountName != "" && spec.ServiceAccountName != defaultAccount {
		r.notes.add(IdentityRemoved, "%s has ServiceAccount %s, and the copy has none; if it needs one, ask the operator to set references.serviceAccount of Baseline %s to Same", r.Snapshot.Source, spec.ServiceAccountName, r.Rules.Baseline)
	}
	spec.ServiceAccountName = ""
	spec.AutomountServiceAccountToken = new(false)
}

// defaultAccount is the ServiceAccount that Kubernetes keeps in each namespace.
const defaultAccount = "default"

// account is the name of the ServiceAccount that has to be created for the copy.
func (r *rendering) account() string {
	if name := r.template.Spec.ServiceAccountName; name != defaultAccount {
		return name
	}
	return ""
}

func (r *rendering) sameAccount() bool {
	return r.Rules.References.ServiceAccount == sandbarv1alpha1.BaselineServiceAccountSame
}

// dropTokens removes tokens of the ServiceAccount from projected volumes. It comes after checkFields, by which they are
// the workload's own.
func (r *rendering) dropTokens() {
	if r.sameAccount() {
		return
	}
	for i := range r.template.Spec.Volumes {
		v := &r.template.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		before := len(v.Projected.Sources)
		v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ServiceAccountToken != nil || p.PodCertificate != nil
		})
		if len(v.Projected.Sources) < before {
			r.notes.add(IdentityRemoved, "spec.volumes[%d] (%s) of %s has a token of its ServiceAccount, and the copy has none; if it needs one, ask the operator to set references.serviceAccount of Baseline %s to Same", i, v.Name, r.Snapshot.Source, r.Rules.Baseline)
		}
	}
}

// checkHost refuses what makes a pod a part of its node, also where the workload has it: the copy would be outside of the
// network policies of its placement. A tenant may take it off by a patch.
func (r *rendering) checkHost(source *corev1.PodTemplateSpec) error {
	fields := hostFields(&r.template.Spec)
	switch {
	case len(fields) == 0:
		return nil
	case slices.Contains(hostFields(&source.Spec), fields[0]):
		return refuse(NotCloneable, "%s of %s makes its pods a part of their node, and a copy cannot be that; remove it by podTemplatePatch, or copy another workload", fields[0], r.Snapshot.Source)
	}
	return refuse(NotAllowed, "%s: makes the pod a part of its node, which a copy cannot be; remove it", fields[0])
}

// hostFields are the fields that make a pod a part of its node.
func hostFields(spec *corev1.PodSpec) []string {
	var fields []string
	add := func(is bool, format string, args ...any) {
		if is {
			fields = append(fields, fmt.Sprintf(format, args...))
		}
	}
	add(spec.HostNetwork, "spec.hostNetwork")
	add(spec.HostPID, "spec.hostPID")
	add(spec.HostIPC, "spec.hostIPC")
	add(spec.SecurityContext != nil && hostProcess(spec.SecurityContext.WindowsOptions), "spec.securityContext.windowsOptions.hostProcess")
	for _, list := range containerLists(spec) {
		for i := range list.containers {
			c := &list.containers[i]
			at := fmt.Sprintf("%s[%d] (%s)", list.field, i, c.Name)
			add(c.SecurityContext != nil && hostProcess(c.SecurityContext.WindowsOptions), "%s.securityContext.windowsOptions.hostProcess", at)
			for _, p := range c.Ports {
				add(p.HostPort != 0, "%s.ports.hostPort %d", at, p.HostPort)
			}
		}
	}
	return fields
}

func hostProcess(options *corev1.WindowsSecurityContextOptions) bool {
	return options != nil && options.HostProcess != nil && *options.HostProcess
}

// checkNumbers refuses more containers and volumes than a node starts in good time.
func (r *rendering) checkNumbers(source *corev1.PodTemplateSpec) error {
	spec := &r.template.Spec
	most := max(maxContainers, len(source.Spec.Containers)+len(source.Spec.InitContainers))
	if n := len(spec.Containers) + len(spec.InitContainers); n > most {
		return refuse(RenderFailed, "podTemplatePatch: %d containers and init containers are too many; have %d at most", n, most)
	}
	most = max(maxVolumes, len(source.Spec.Volumes))
	if n := len(spec.Volumes); n > most {
		return refuse(RenderFailed, "podTemplatePatch: %d volumes are too many; have %d at most", n, most)
	}
	if len(spec.Containers) == 0 {
		return refuse(RenderFailed, "podTemplatePatch: leaves no container; keep one")
	}
	return nil
}
