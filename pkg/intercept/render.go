// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// Replicas is how many proxies a Service has.
	Replicas = 2
	// DrainFor is how long proxies go on when their Service has its own pods again, and how long one that ends goes on.
	DrainFor = 30 * time.Second
	// graceSeconds is when the kubelet kills a proxy that has been told to end.
	graceSeconds = 40
	// uid is the user of a proxy.
	uid = 65532

	container  = "proxy"
	portAdmin  = "sandbar-admin"
	pathReady  = "/readyz"
	pathHealth = "/healthz"

	// annotationPorts, on the Deployment and on its pods, tells what the proxies do at which port, which does not change while one runs;
	// annotationSpec, on the Deployment, tells what else was written.
	annotationPorts = "sandbar.dev/ports"
	annotationSpec  = "sandbar.dev/rendered"
)

// objects are what stands in front of a Service, and behind.
type objects struct {
	deployment *appsv1.Deployment
	budget     *policyv1.PodDisruptionBudget
	behind     *corev1.Service
}

// render makes the objects for a Service, as its owner has it. live is the Service behind as it is; nil if there is none.
func render(s, live *corev1.Service, image string) objects {
	p := portsOf(s, live)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: Labels(s.Name)}
	}
	all := objects{
		deployment: &appsv1.Deployment{ObjectMeta: meta(ProxyName(s.Name)), Spec: deploymentOf(s, p, image)},
		budget: &policyv1.PodDisruptionBudget{ObjectMeta: meta(ProxyName(s.Name)), Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: Selector(s.Name)},
			// Proxies that are not ready serve nobody: they must not keep a node from being drained.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		}},
		behind: &corev1.Service{ObjectMeta: meta(BaselineName(s.Name)), Spec: behindOf(s)},
	}
	// As those of the Service itself, when it is made: later the API server lets nobody change the first.
	all.behind.Spec.IPFamilies, all.behind.Spec.IPFamilyPolicy = slices.Clone(s.Spec.IPFamilies), s.Spec.IPFamilyPolicy
	all.deployment.Annotations = map[string]string{
		annotationPorts: p.hash(),
		annotationSpec:  hashOf([]byte(encode(all.deployment.Spec)))[:nameHash],
	}
	return all
}

// behindOf is the Service that has the original pods: their addresses and ports, and nothing by which it could be reached from
// outside.
func behindOf(s *corev1.Service) corev1.ServiceSpec {
	spec := corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(s.Spec.Selector),
		// Its clients are the proxies: two addresses, by which the pods could not share the load.
		SessionAffinity:     corev1.ServiceAffinityNone,
		TrafficDistribution: s.Spec.TrafficDistribution,
	}
	for _, p := range s.Spec.Ports {
		port := *p.DeepCopy()
		port.NodePort, port.TargetPort, port.Protocol = 0, targetOf(&p), corev1.ProtocolTCP
		spec.Ports = append(spec.Ports, port)
	}
	return spec
}

func deploymentOf(s *corev1.Service, p ports, image string) appsv1.DeploymentSpec {
	return appsv1.DeploymentSpec{
		Replicas: new(int32(Replicas)),
		Selector: &metav1.LabelSelector{MatchLabels: Selector(s.Name)},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
		}},
		Template: corev1.PodTemplateSpec{
			// By the annotation other ports are other pods.
			ObjectMeta: metav1.ObjectMeta{Labels: Labels(s.Name), Annotations: map[string]string{annotationPorts: p.hash()}},
			Spec:       podOf(s, p, image),
		},
	}
}

// podOf is a proxy's pod. It is what the admission policy of the controllers lets through (install/manifests/runtime/50-admission.yaml):
// without volumes, variables, and privileges, and with the identity that reads one ConfigMap.
func podOf(s *corev1.Service, p ports, image string) corev1.PodSpec {
	spec := corev1.PodSpec{
		ServiceAccountName:            Account,
		EnableServiceLinks:            new(false),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
		TerminationGracePeriodSeconds: new(int64(graceSeconds)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(uid)), RunAsGroup: new(int64(uid)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(s.Name)},
			},
		}}}},
		Containers: []corev1.Container{containerOf(s, p, image)},
	}
	if p.needsPrivilege() {
		// One of the sysctls that Kubernetes calls safe, and the level restricted admits.
		spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	}
	return spec
}

func containerOf(s *corev1.Service, p ports, image string) corev1.Container {
	probe := func(path string, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portAdmin)}},
			// With the defaults of the API server: isDeployment takes a number that is left out for one.
			TimeoutSeconds: 1, PeriodSeconds: 2, SuccessThreshold: 1, FailureThreshold: failures,
		}
	}
	return corev1.Container{
		Name: container, Image: image,
		Args:           []string{"--service", s.Name, "--namespace", s.Namespace, "--admin", fmt.Sprintf(":%d", p.admin), "--drain", DrainFor.String()},
		Ports:          append([]corev1.ContainerPort{{Name: portAdmin, ContainerPort: p.admin, Protocol: corev1.ProtocolTCP}}, p.declared...),
		ReadinessProbe: probe(pathReady, 3), // one answer that is late takes no proxy out of a Service that has two
		LivenessProbe:  probe(pathHealth, 15),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// isDeployment reports whether a Deployment is as it is to be. The API server fills in more than is wanted; what was written
// before, and is not wanted now, shows in the annotation.
func isDeployment(is, wanted *appsv1.Deployment) bool {
	return has(is.Labels, wanted.Labels) && has(is.Annotations, wanted.Annotations) && equality.Semantic.DeepDerivative(wanted.Spec, is.Spec)
}

func isBudget(is, wanted *policyv1.PodDisruptionBudget) bool {
	return has(is.Labels, wanted.Labels) && equality.Semantic.DeepEqual(wanted.Spec.MinAvailable, is.Spec.MinAvailable) &&
		equality.Semantic.DeepEqual(wanted.Spec.Selector, is.Spec.Selector) && equality.Semantic.DeepEqual(wanted.Spec.UnhealthyPodEvictionPolicy, is.Spec.UnhealthyPodEvictionPolicy)
}

func isBehind(is, wanted *corev1.Service) bool {
	of := func(s *corev1.Service) corev1.ServiceSpec { return behindOf(s) }
	return has(is.Labels, wanted.Labels) && is.Spec.Type == corev1.ServiceTypeClusterIP &&
		is.Spec.SessionAffinity != corev1.ServiceAffinityClientIP && !is.Spec.PublishNotReadyAddresses && equality.Semantic.DeepEqual(of(is), of(wanted))
}

// has reports whether all of some labels are among others.
func has(all, some map[string]string) bool {
	for name, value := range some {
		if is, there := all[name]; !there || is != value {
			return false
		}
	}
	return true
}
