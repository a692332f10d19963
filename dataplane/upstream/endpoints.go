// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Why an endpoint is not dialled.
var (
	// errUnknownPod means that an endpoint names a pod that we do not know, or not so: the
	// informer of slices can be ahead of that of pods, or behind it. A request that
	// does not wait takes it for errNoEndpoint.
	errUnknownPod = fmt.Errorf("%w: an endpoint's pod is not known (yet)", errNoEndpoint)
	// errForeignEndpoint means that an endpoint is no pod of the placement.
	errForeignEndpoint = errors.New("an endpoint of the service is no pod of the placement")

	errNotAPod      = fmt.Errorf("%w: it names none of its namespace", errForeignEndpoint)
	errForeignPod   = fmt.Errorf("%w: the pod does not carry the placement's label", errForeignEndpoint)
	errForeignNode  = fmt.Errorf("%w: the pod shares its node's network", errForeignEndpoint)
	errOtherAddress = fmt.Errorf("%w: the address is not the pod's", errForeignEndpoint)
	// errNoPodAddress means that a pod's status has an address that no pod can have.
	errNoPodAddress = fmt.Errorf("%w: the pod has no address that a pod can have", errNoEndpoint)
)

// readyPod is a pod that may be dialled, at one of its addresses. The pod is shared: never write to it.
type readyPod struct {
	ip   string
	port int
	pod  *corev1.Pod
}

// key tells the pod from all others, also from a later one at its address.
func (e readyPod) key() endpointKey { return endpointKey{e.ip, e.port, e.pod.UID} }

type endpointKey struct {
	ip   string
	port int
	uid  types.UID
}

// ready yields the pods behind a destination that are ready and may be dialled.
func (d *direct) ready(to locate.Destination) iter.Seq[readyPod] {
	return func(yield func(readyPod) bool) {
		for e, err := range d.endpoints(to) {
			if err == nil && !yield(e) {
				return
			}
		}
	}
}

// none says why there is no pod to dial. What is wrong with the placement goes before what is not
// there yet.
func (d *direct) none(to locate.Destination) error {
	why := errNoEndpoint
	for _, err := range d.endpoints(to) {
		if errors.Is(err, errForeignEndpoint) {
			return err
		}
		if err != nil {
			why = err
		}
	}
	return why
}

// endpoints yields what stands behind a destination, each with the reason why it must not be
// dialled, if there is one.
func (d *direct) endpoints(to locate.Destination) iter.Seq2[readyPod, error] {
	if to.Pod != "" {
		return d.podEndpoints(to)
	}
	return func(yield func(readyPod, error) bool) {
		for slice := range d.cache.EndpointSlices(to.Namespace, to.Service) {
			number := portNumber(slice, to.Port)
			if number == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
				continue
			}
			for i := range slice.Endpoints {
				if !d.sliceEndpoint(to, &slice.Endpoints[i], number, yield) {
					return
				}
			}
		}
	}
}

// stands reports whether an endpoint that was dialled for a destination is still one of it. It is asked
// before each request on a kept connection, and looks at that endpoint alone.
func (d *direct) stands(to locate.Destination, at endpointKey) bool {
	if to.Pod != "" {
		for e := range d.ready(to) {
			if e.key() == at {
				return true
			}
		}
		return false
	}
	for slice := range d.cache.EndpointSlices(to.Namespace, to.Service) {
		if portNumber(slice, to.Port) != at.port {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.TargetRef == nil || e.TargetRef.UID != at.uid || !isReady(e) || !slices.Contains(e.Addresses, at.ip) {
				continue
			}
			if pod, err := d.podOf(to, e.TargetRef); err == nil && d.admit(to, pod, at.ip) == nil {
				return true
			}
		}
	}
	return false
}

func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func (d *direct) sliceEndpoint(to locate.Destination, e *discoveryv1.Endpoint, port int, yield func(readyPod, error) bool) bool {
	if !isReady(e) {
		return true
	}
	pod, err := d.podOf(to, e.TargetRef)
	for _, ip := range e.Addresses {
		why := err
		if why == nil {
			why = d.admit(to, pod, ip)
		}
		if !yield(readyPod{ip, port, pod}, why) {
			return false
		}
	}
	return true
}

// podOf returns the pod that an endpoint names. A Service without a selector has endpoints that
// name none: they are not dialled, since nothing tells whose they are.
func (d *direct) podOf(to locate.Destination, ref *corev1.ObjectReference) (*corev1.Pod, error) {
	if ref == nil || ref.Kind != "Pod" || ref.Namespace != to.Namespace {
		return nil, errNotAPod
	}
	pod := locate.Lookup[corev1.Pod](d.cache.Pods, to.Namespace+"/"+ref.Name)
	if pod == nil || pod.UID != ref.UID {
		return nil, errUnknownPod
	}
	return pod, nil
}

// podEndpoints yields where a Pod serves a port.
func (d *direct) podEndpoints(to locate.Destination) iter.Seq2[readyPod, error] {
	return func(yield func(readyPod, error) bool) {
		port, err := strconv.Atoi(to.Port)
		pod := locate.Lookup[corev1.Pod](d.cache.Pods, to.Namespace+"/"+to.Pod)
		if err != nil || pod == nil || pod.Status.Phase != corev1.PodRunning {
			return
		}
		for _, ip := range pod.Status.PodIPs {
			if !yield(readyPod{ip.IP, port, pod}, d.admit(to, pod, ip.IP)) {
				return
			}
		}
	}
}

// admit decides whether an address may be dialled for a pod. It is the only place that does, for
// each request and for each connection that is used again. A slice is not believed: an attacker who
// can write one could otherwise lead requests, with their bodies and credentials, to another tenant's
// pod, to a node or to the API server.
func (d *direct) admit(to locate.Destination, pod *corev1.Pod, ip string) error {
	if pod.Labels[placement.LabelInstanceUID] != string(to.UID) {
		return errForeignPod
	}
	if pod.Spec.HostNetwork || ip == pod.Status.HostIP {
		return errForeignNode
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return errUnknownPod // its address may be another pod's by now
	}
	if !slices.ContainsFunc(pod.Status.PodIPs, func(has corev1.PodIP) bool { return has.IP == ip }) {
		return errOtherAddress
	}
	if parsed, err := netip.ParseAddr(ip); err != nil || !d.permit(parsed.Unmap()) {
		return errNoPodAddress
	}
	return nil
}

func portNumber(slice *discoveryv1.EndpointSlice, name string) int {
	for _, p := range slice.Ports {
		if p.Name != nil && *p.Name == name && p.Port != nil && (p.Protocol == nil || *p.Protocol == "TCP") {
			return int(*p.Port)
		}
	}
	return 0
}

// ec2Metadata is the address where a cloud answers all processes on its machines.
var ec2Metadata = netip.MustParseAddr("fd00:ec2::254")

// isPodAddress refuses addresses that no pod has: an endpoint that names one would lead to the
// data plane's own machine or to a cloud's metadata (Kubernetes CVE-2021-25737).
func isPodAddress(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() &&
		!ip.IsLinkLocalUnicast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && ip != ec2Metadata
}
