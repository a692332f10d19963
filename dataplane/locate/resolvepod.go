// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
)

var (
	errNodeNetwork = errors.New("the pod shares its node's network")
	// errNoPortName means that no container of a pod has a port of a name.
	errNoPortName = errors.New("no container of the pod has a port of that name")
)

// resolvePod follows an endpoint's reference to a Pod, or chooses one of the component that the caller names.
func (p *Placer) resolvePod(t *Target, r Route, e sandbarv1alpha1.Endpoint) (*Target, *refusal.Error) {
	var pod *corev1.Pod
	var refused *refusal.Error
	if e.PodsOf != "" {
		pod, refused = p.componentPod(t.At, r.Component)
	} else {
		pod, refused = follow[corev1.Pod](t.At, e.PodRef, p.Cache.Pods.GetStore().GetByKey)
	}
	if refused != nil {
		return nil, refused
	}
	t.Pod, t.Subresource, t.container = pod, e.PodSubresource, e.Container
	if t.Subresource != contract.PodProxy && t.Subresource != contract.PodPortForward {
		return t, nil
	}
	if pod.Spec.HostNetwork {
		// Its ports are those of everything on the node, the kubelet's among them.
		return nil, RefusedReference(errNodeNetwork)
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.PodIPs) == 0 {
		return nil, refusal.NotReady(NoPodMessage(t.At), nil)
	}
	if t.Subresource == contract.PodProxy {
		t.Port, refused = podPort(pod, cmp.Or(r.Port, e.Port))
	}
	return t, refused
}

// podPort is the number of a port that was named by name or number.
func podPort(pod *corev1.Pod, port string) (string, *refusal.Error) {
	if port == "" {
		return "", refusal.Malformed("name the port that is meant: …/ports/<name or number>/" + contract.ProxyVerb)
	}
	if _, err := strconv.Atoi(port); err == nil {
		return port, nil // the router and the Template's check have seen to its range
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "") {
				return strconv.Itoa(int(p.ContainerPort)), nil
			}
		}
	}
	return "", &refusal.Error{
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Cause: refusal.CauseNoPort, Err: errNoPortName,
		Message: "the instance's pod has no TCP port named " + port + ": name another, or its number",
	}
}

// IsSubresource tells whether the request is the API server's to answer, by a subresource of a Pod.
func (t *Target) IsSubresource() bool { return t.Pod != nil && t.Subresource != contract.PodProxy }

// ChooseContainer is the container that a caller means, who may name one (or none).
func (t *Target) ChooseContainer(named string) (string, *refusal.Error) {
	if t.container != "" {
		if named != "" && named != t.container {
			return "", refusal.Malformed("container must be " + t.container + " or left out: the Template names it")
		}
		return t.container, nil
	}
	var names []string
	for i := range t.Pod.Spec.Containers {
		names = append(names, t.Pod.Spec.Containers[i].Name)
	}
	switch {
	case len(names) == 0:
		return "", refusal.NotReady(NoPodMessage(t.At), nil)
	case named == "":
		return names[0], nil
	case !slices.Contains(names, named):
		return "", refusal.Malformed("container must be one of " + strings.Join(names, ", "))
	}
	return named, nil
}

// Running tells whether a container of a Pod runs.
func Running(pod *corev1.Pod, container string) bool {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.State.Running != nil
		}
	}
	return false
}

// Restarts is how often a container of a Pod was started again.
func Restarts(pod *corev1.Pod, container string) int32 {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.RestartCount
		}
	}
	return 0
}

// stripPod keeps of a Pod what its subresources and ports need, and what tells whether it is the one
// that an endpoint names and how it is shown that requests are ours.
func stripPod(pod *corev1.Pod) {
	containers := make([]corev1.Container, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		kept := corev1.Container{Name: pod.Spec.Containers[i].Name, Ports: pod.Spec.Containers[i].Ports}
		if slices.ContainsFunc(pod.Spec.Containers[i].Env, NamesPodUID) {
			kept.Env = podUIDEnv
		}
		containers = append(containers, kept)
	}
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Status.ContainerStatuses))
	for i := range pod.Status.ContainerStatuses {
		status := corev1.ContainerStatus{Name: pod.Status.ContainerStatuses[i].Name, RestartCount: pod.Status.ContainerStatuses[i].RestartCount}
		if pod.Status.ContainerStatuses[i].State.Running != nil {
			status.State.Running = &corev1.ContainerStateRunning{}
		}
		statuses = append(statuses, status)
	}
	var isReady []corev1.PodCondition // what else a condition says is long, and changes often
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			isReady = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	pod.Annotations = nil
	pod.Spec = corev1.PodSpec{Containers: containers, HostNetwork: pod.Spec.HostNetwork}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, HostIP: pod.Status.HostIP, PodIPs: pod.Status.PodIPs, ContainerStatuses: statuses, Conditions: isReady,
	}
}

// podUIDEnv is all that is kept of an environment; every pod shares it.
var podUIDEnv = []corev1.EnvVar{{
	Name: controlproof.PodUIDVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
}}

// NamesPodUID reports whether a variable tells a container its pod's UID, as those have it that take proofs.
func NamesPodUID(env corev1.EnvVar) bool {
	return env.Name == controlproof.PodUIDVariable && env.ValueFrom != nil && env.ValueFrom.FieldRef != nil &&
		env.ValueFrom.FieldRef.FieldPath == "metadata.uid"
}
