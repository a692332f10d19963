// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// reservedDomain is that of Sandbar's own labels.
const reservedDomain = "sandbar.dev"

// operatorOwned are the fields by which a pod would choose what surrounds it. They must be as
// in the operator's own template, which for a tenant's template means unset.
var operatorOwned = []struct {
	field, why string
	of         func(*corev1.PodSpec) any
}{
	{"serviceAccountName", "a sandbox has no identity on the runtime cluster", func(s *corev1.PodSpec) any { return s.ServiceAccountName + s.DeprecatedServiceAccount }},
	{"automountServiceAccountToken", "a sandbox has no identity on the runtime cluster", func(s *corev1.PodSpec) any { return isTrue(s.AutomountServiceAccountToken) }},
	{"hostNetwork", "it leads around the network policies of the sandbox", func(s *corev1.PodSpec) any { return s.HostNetwork }},
	{"hostPID", "it leads out of the sandbox", func(s *corev1.PodSpec) any { return s.HostPID }},
	{"hostIPC", "it leads out of the sandbox", func(s *corev1.PodSpec) any { return s.HostIPC }},
	{"nodeName", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.NodeName }},
	{"nodeSelector", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.NodeSelector }},
	// Affinity may name other namespaces: it would find, or join, another tenant's pods.
	{"affinity", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.Affinity }},
	{"tolerations", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.Tolerations }},
	{"topologySpreadConstraints", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.TopologySpreadConstraints }},
	{"schedulerName", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.SchedulerName }},
	{"schedulingGates", "the operator decides where sandboxes run", func(s *corev1.PodSpec) any { return s.SchedulingGates }},
	{"priorityClassName", "it would evict other tenants' pods", func(s *corev1.PodSpec) any { return s.PriorityClassName }},
	{"priority", "it would evict other tenants' pods", func(s *corev1.PodSpec) any { return s.Priority }},
	{"preemptionPolicy", "it would evict other tenants' pods", func(s *corev1.PodSpec) any { return s.PreemptionPolicy }},
	{"resourceClaims", "devices are the operator's to give", func(s *corev1.PodSpec) any { return s.ResourceClaims }},
}

// check lists, each with its field, what cannot be: fields that are the operator's, and what a
// pod that is started again and again cannot have.
func check(template, base *corev1.PodTemplateSpec, rules Rules) []string {
	var problems []string
	add := func(field, format string, args ...any) {
		problems = append(problems, field+": "+fmt.Sprintf(format, args...))
	}
	spec := &template.Spec
	for _, owned := range operatorOwned {
		if !equality.Semantic.DeepEqual(owned.of(spec), owned.of(&base.Spec)) {
			add("spec."+owned.field, "is not a tenant's to set: %s; remove it", owned.why)
		}
	}
	wanted := rules.RuntimeClassName
	if base.Spec.RuntimeClassName != nil {
		wanted = *base.Spec.RuntimeClassName
	}
	if class := spec.RuntimeClassName; class != nil && *class != wanted {
		add("spec.runtimeClassName", "is not a tenant's to set, and the operator's is %q; remove it", wanted)
	}
	if spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways {
		add("spec.restartPolicy", "must be Always: a sandbox runs until it is suspended")
	}
	if spec.ActiveDeadlineSeconds != nil {
		add("spec.activeDeadlineSeconds", "cannot be set; use spec.lifecycle of the instance")
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace > MaxGraceSeconds {
		add("spec.terminationGracePeriodSeconds", "must be at most %d", MaxGraceSeconds)
	}
	if len(spec.EphemeralContainers) > 0 {
		add("spec.ephemeralContainers", "cannot be part of a template")
	}
	problems = append(problems, checkMetadata(template, base, rules)...)
	problems = append(problems, checkVolumes(spec, &base.Spec)...)
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"spec.initContainers", spec.InitContainers}, {"spec.containers", spec.Containers}} {
		for i := range list.containers {
			problems = append(problems, checkContainer(fmt.Sprintf("%s[%d]", list.field, i), &list.containers[i])...)
		}
	}
	return problems
}

// checkMetadata keeps a tenant's pod from being taken for what it is not. Annotations have no
// free form at all: container runtimes take orders by annotations that look like a tenant's own
// (io.katacontainers.config…, dev.gvisor.spec…, io.kubernetes.cri-o…).
func checkMetadata(template, base *corev1.PodTemplateSpec, rules Rules) []string {
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		if _, isBase := base.Labels[key]; isBase && base.Labels[key] == template.Labels[key] {
			continue
		}
		domain, _, hasDomain := strings.Cut(key, "/")
		reserved := domain == reservedDomain || strings.HasSuffix(domain, "."+reservedDomain)
		if hasDomain && (reserved || !hasPrefix(key, rules.LabelPrefixes)) {
			problems = append(problems, fmt.Sprintf("metadata.labels[%q]: is not a tenant's to set; use a key without a domain, or ask the operator to allow it (spec.instanceMetadata.labelPrefixes)", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(template.Annotations)) {
		if _, isBase := base.Annotations[key]; isBase && base.Annotations[key] == template.Annotations[key] {
			continue
		}
		if !hasPrefix(key, rules.AnnotationPrefixes) || strings.HasPrefix(key, reservedDomain+"/") {
			problems = append(problems, fmt.Sprintf("metadata.annotations[%q]: is not a tenant's to set; ask the operator to allow it (spec.instanceMetadata.annotationPrefixes)", key))
		}
	}
	rest := template.ObjectMeta.DeepCopy()
	rest.Labels, rest.Annotations = nil, nil
	bare := base.ObjectMeta.DeepCopy()
	bare.Labels, bare.Annotations = nil, nil
	if !equality.Semantic.DeepEqual(rest, bare) {
		problems = append(problems, "metadata: has only labels and annotations")
	}
	return problems
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// checkVolumes admits the kinds of volumes that stay within the placement. A node mounts all
// others (NFS, iSCSI, CSI and so on) from its own network, where no network policy holds.
func checkVolumes(spec, base *corev1.PodSpec) []string {
	var problems []string
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		if slices.ContainsFunc(base.Volumes, func(v corev1.Volume) bool { return equality.Semantic.DeepEqual(v, *volume) }) {
			continue
		}
		field := fmt.Sprintf("spec.volumes[%d]", i)
		rest := volume.VolumeSource
		rest.ConfigMap, rest.DownwardAPI, rest.EmptyDir, rest.Secret, rest.PersistentVolumeClaim = nil, nil, nil, nil, nil
		if projected := rest.Projected; projected != nil {
			rest.Projected = nil
			for _, source := range projected.Sources {
				if source.ServiceAccountToken != nil || source.PodCertificate != nil {
					problems = append(problems, field+".projected: a sandbox has no identity on the runtime cluster; remove the token")
				}
			}
		}
		if !equality.Semantic.DeepEqual(rest, corev1.VolumeSource{}) {
			problems = append(problems, field+": must be one of configMap, downwardAPI, emptyDir, persistentVolumeClaim, projected and secret; for a volume of its own use volumeClaimTemplates")
		}
	}
	return problems
}

// checkContainer refuses what makes the node do something for the tenant.
func checkContainer(field string, container *corev1.Container) []string {
	var problems []string
	for i, port := range container.Ports {
		if port.HostPort != 0 || port.HostIP != "" {
			problems = append(problems, fmt.Sprintf("%s.ports[%d].hostPort: is not a tenant's to set; the verbs proxy and portforward lead to every port", field, i))
		}
	}
	handlers := map[string]*corev1.ProbeHandler{}
	for name, probe := range map[string]*corev1.Probe{
		"livenessProbe": container.LivenessProbe, "readinessProbe": container.ReadinessProbe, "startupProbe": container.StartupProbe,
	} {
		if probe != nil {
			handlers[name] = &probe.ProbeHandler
		}
	}
	if container.Lifecycle != nil {
		for name, h := range map[string]*corev1.LifecycleHandler{"postStart": container.Lifecycle.PostStart, "preStop": container.Lifecycle.PreStop} {
			if h != nil {
				handlers["lifecycle."+name] = &corev1.ProbeHandler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		h := handlers[name]
		if (h.HTTPGet != nil && h.HTTPGet.Host != "") || (h.TCPSocket != nil && h.TCPSocket.Host != "") {
			// The kubelet asks, from the node's network: a way to its metadata service.
			problems = append(problems, fmt.Sprintf("%s.%s: host cannot be set; the pod itself is asked", field, name))
		}
	}
	return problems
}
