// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"errors"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

var (
	errNodeNetwork = errors.New("the pod shares its node's network")
	// errNoPortName means that no container of a pod has a port of a name.
	errNoPortName = errors.New("no container of the pod has a port of that name")
)

// resolvePod follows an endpoint's reference to a Pod.
func (p *placer) resolvePod(t *target, r route, e sandbarv1alpha1.Endpoint) (*target, *refusal) {
	pod, refused := follow[corev1.Pod](t.at, e.PodRef, p.cache.pods.GetStore().GetByKey)
	if refused != nil {
		return nil, refused
	}
	t.pod, t.subresource, t.container = pod, e.PodSubresource, e.Container
	if t.subresource != contract.PodProxy && t.subresource != contract.PodPortForward {
		return t, nil
	}
	if pod.Spec.HostNetwork {
		// Its ports are those of everything on the node, the kubelet's among them.
		return nil, refusedReference(errNodeNetwork)
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.PodIPs) == 0 {
		return nil, notReady(notReadyMessage(t.at), nil)
	}
	if t.subresource == contract.PodProxy {
		t.port, refused = podPort(pod, cmp.Or(r.port, e.Port))
	}
	return t, refused
}

// podPort is the number of a port that was named by name or number.
func podPort(pod *corev1.Pod, port string) (string, *refusal) {
	if port == "" {
		return "", malformed("name the port that is meant: …/ports/<name or number>/" + contract.ProxyVerb)
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
	return "", &refusal{
		code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, cause: causeNoPort, err: errNoPortName,
		message: "the instance's pod has no TCP port named " + port + ": name another, or its number",
	}
}

// isSubresource tells whether the request is the API server's to answer, by a subresource of a Pod.
func (t *target) isSubresource() bool { return t.pod != nil && t.subresource != contract.PodProxy }

// subresource is the way to a subresource of a Pod, with the provider's credential. Of the caller's
// request goes there what is named in here and nothing else: the API server reads headers and
// parameters that would have it do other things with the provider's rights.
func (a *apiServer) subresource(x *exchange, to *target) (upstream, *refusal) {
	if x.route.tail != "" && x.route.tail != "/" {
		return upstream{}, malformed("this verb has no paths below it")
	}
	up := upstream{rt: a, header: http.Header{"User-Agent": {"sandbar-dataplane"}}}
	var (
		query   url.Values
		refused *refusal
	)
	if to.subresource == contract.PodLog {
		query, refused = podLogQuery(x.request.URL.Query(), to)
	} else if refused = podHandshake(up.header, x.request.Header, to.subresource); refused == nil {
		// Only now: parameters in the form of another protocol are to be told the protocol.
		query, refused = podStreamQuery(x.request.URL.RawQuery, to)
	}
	if refused != nil {
		return upstream{}, refused
	}
	u := a.base
	u.Path += "/api/v1/namespaces/" + to.namespace + "/pods/" + to.pod.Name + "/" + to.subresource
	u.RawQuery = query.Encode()
	up.url = &u
	return up, nil
}

// chooseContainer is the container that a caller means, who may name one (or none).
func (t *target) chooseContainer(named string) (string, *refusal) {
	if t.container != "" {
		if named != "" && named != t.container {
			return "", malformed("container must be " + t.container + " or left out: the Template names it")
		}
		return t.container, nil
	}
	var names []string
	for i := range t.pod.Spec.Containers {
		names = append(names, t.pod.Spec.Containers[i].Name)
	}
	switch {
	case len(names) == 0:
		return "", notReady(notReadyMessage(t.at), nil)
	case named == "":
		return names[0], nil
	case !slices.Contains(names, named):
		return "", malformed("container must be one of " + strings.Join(names, ", "))
	}
	return named, nil
}

// running tells whether a container of a Pod runs.
func running(pod *corev1.Pod, container string) bool {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.State.Running != nil
		}
	}
	return false
}

// judgeSubresource replaces the API server's errors, which name namespaces, pods and nodes, and
// keeps from the caller whatever headers it sends of its own.
func judgeSubresource(to *target, res *http.Response) *refusal {
	for name := range res.Header {
		if name != "Content-Type" {
			delete(res.Header, name)
		}
	}
	switch {
	case res.StatusCode == http.StatusOK && to.subresource == contract.PodLog:
		return nil
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusNotFound:
		return notReady("the verb "+to.subresource+" is not there yet: wait until the instance's container has started", nil)
	}
	return badGateway(causeUnreachable, "the instance's "+to.subresource+" cannot be reached: try again, and if that does not help tell the operator", errAPIServer)
}

// podPort yields where a Pod serves a port: port.name.namespace, as in direct.address.
func (d *direct) podPort(of string) iter.Seq[readyPod] {
	return func(yield func(readyPod) bool) {
		port, rest, _ := strings.Cut(of, ".")
		dot := strings.LastIndexByte(rest, '.') // a Pod's name may have dots, a namespace's has none
		number, err := strconv.Atoi(port)
		if err != nil || dot < 0 {
			return
		}
		pod := lookup[corev1.Pod](d.cache.pods, rest[dot+1:]+"/"+rest[:dot])
		if pod == nil || pod.Spec.HostNetwork || pod.Status.Phase != corev1.PodRunning {
			return
		}
		for _, ip := range pod.Status.PodIPs {
			if parsed, err := netip.ParseAddr(ip.IP); err == nil && d.permit(parsed.Unmap()) && !yield(readyPod{ip.IP, number, pod.UID}) {
				return
			}
		}
	}
}

// stripPod keeps of a Pod what its subresources and ports need.
func stripPod(pod *corev1.Pod) {
	containers := make([]corev1.Container, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		containers = append(containers, corev1.Container{Name: pod.Spec.Containers[i].Name, Ports: pod.Spec.Containers[i].Ports})
	}
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Status.ContainerStatuses))
	for i := range pod.Status.ContainerStatuses {
		status := corev1.ContainerStatus{Name: pod.Status.ContainerStatuses[i].Name}
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
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs, ContainerStatuses: statuses, Conditions: isReady}
}
