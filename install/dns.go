// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Where clusters have their DNS.
const (
	localIPFlag = "localip"
	// As the CRD bounds spec.isolation.egress.dns: what exceeds it cannot be set.
	maxDNSLabels, maxDNSPorts, maxDNSServers = 8, 4, 16
)

var (
	// dnsServices are looked for in this order. The first is that of kubeadm, kind, k3s, GKE, EKS and AKS, of
	// kube-dns as well as CoreDNS; the second that of OpenShift.
	dnsServices = []types.NamespacedName{
		{Namespace: "kube-system", Name: "kube-dns"},
		{Namespace: "openshift-dns", Name: "dns-default"},
	}
	// nodeLocalDNS is the cache on each node, by the name of its manifest in kubernetes/kubernetes
	// (cluster/addons/dns/nodelocaldns) and on GKE.
	nodeLocalDNS = types.NamespacedName{Namespace: "kube-system", Name: "node-local-dns"}
)

// foundDNS is what a runtime cluster has for DNS.
type foundDNS struct {
	// dns is nil if nothing was found, so that the defaults hold.
	dns *sandbarv1alpha1.EgressDNS
	// said is where it was found, for people.
	said string
}

// findDNS finds the DNS of the runtime cluster. An error says nothing about what the cluster has.
func findDNS(ctx context.Context, cfg *rest.Config) (foundDNS, error) {
	reader, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return foundDNS{}, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	return lookForDNS(ctx, reader)
}

func lookForDNS(ctx context.Context, reader client.Reader) (foundDNS, error) {
	service, err := dnsService(ctx, reader)
	if err != nil {
		return foundDNS{}, err
	}
	cache := &appsv1.DaemonSet{}
	if err := reader.Get(ctx, nodeLocalDNS, cache); apierrors.IsNotFound(err) {
		cache = nil
	} else if err != nil {
		return foundDNS{}, fmt.Errorf("reading DaemonSet %s: %w", nodeLocalDNS, err)
	}
	dns := &sandbarv1alpha1.EgressDNS{}
	var said []string
	if service != nil {
		if err := takeService(ctx, reader, service, dns); err != nil {
			return foundDNS{}, err
		}
		said = append(said, "Service "+client.ObjectKeyFromObject(service).String())
	}
	if cache != nil && takeCache(cache, dns) {
		said = append(said, "DaemonSet "+nodeLocalDNS.String())
	}
	if len(said) == 0 || len(dns.PodLabels) > maxDNSLabels || len(dns.Ports) > maxDNSPorts || len(dns.Addresses) > maxDNSServers {
		return foundDNS{}, nil
	}
	return foundDNS{dns, strings.Join(said, ", ")}, nil
}

// dnsService is the Service of the cluster's DNS; nil if there is none that is known. RKE2 names it for its
// chart, and labels it as the others.
func dnsService(ctx context.Context, reader client.Reader) (*corev1.Service, error) {
	for _, key := range dnsServices {
		service := &corev1.Service{}
		err := reader.Get(ctx, key, service)
		if err == nil {
			return service, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Service %s: %w", key, err)
		}
	}
	var services corev1.ServiceList
	if err := reader.List(ctx, &services, client.InNamespace(nodeLocalDNS.Namespace), client.MatchingLabels{sandbarv1alpha1.DefaultDNSPodLabel: sandbarv1alpha1.DefaultDNSPodLabelValue}); err != nil {
		return nil, fmt.Errorf("listing the Services of %s: %w", nodeLocalDNS.Namespace, err)
	}
	for i := range services.Items {
		if service := &services.Items[i]; len(service.Spec.Selector) > 0 && len(dnsPortNames(service)) > 0 {
			return service, nil
		}
	}
	return nil, nil
}

// dnsPortNames are the names of a Service's ports for DNS, by which its EndpointSlices have those of pods.
func dnsPortNames(service *corev1.Service) map[string]bool {
	names := map[string]bool{}
	for _, port := range service.Spec.Ports {
		if port.Port == sandbarv1alpha1.DefaultDNSPort {
			names[port.Name] = true
		}
	}
	return names
}

// takeService takes the pods of a Service and their ports. One without a selector has servers that are not
// pods: then it takes their addresses.
func takeService(ctx context.Context, reader client.Reader, service *corev1.Service, dns *sandbarv1alpha1.EgressDNS) error {
	var endpoints discoveryv1.EndpointSliceList
	if err := reader.List(ctx, &endpoints, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return fmt.Errorf("listing the EndpointSlices of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	names := dnsPortNames(service)
	for i := range endpoints.Items {
		slice := &endpoints.Items[i]
		for _, port := range slice.Ports {
			if port.Port != nil && port.Name != nil && names[*port.Name] && !slices.Contains(dns.Ports, *port.Port) {
				dns.Ports = append(dns.Ports, *port.Port)
			}
		}
		if len(service.Spec.Selector) == 0 {
			for _, endpoint := range slice.Endpoints {
				dns.Addresses = append(dns.Addresses, endpoint.Addresses...)
			}
		}
	}
	if len(dns.Ports) == 0 { // no pod is there yet
		dns.Ports = targetPorts(service)
	}
	slices.Sort(dns.Ports)
	dns.Addresses = only(dns.Addresses)
	if len(service.Spec.Selector) > 0 {
		dns.Namespace, dns.PodLabels = service.Namespace, maps.Clone(service.Spec.Selector)
	}
	return nil
}

// targetPorts are the ports of pods that a Service itself names. One that it has by name is in the pods only.
func targetPorts(service *corev1.Service) []int32 {
	var ports []int32
	for _, port := range service.Spec.Ports {
		number := port.TargetPort.IntVal
		if number == 0 && port.TargetPort.StrVal == "" {
			number = port.Port
		}
		if port.Port == sandbarv1alpha1.DefaultDNSPort && number != 0 && !slices.Contains(ports, number) {
			ports = append(ports, number)
		}
	}
	return ports
}

// takeCache takes the addresses at which the cache on each node answers. One that is not on its node's
// network gets the traffic by a redirection of the network plugin (Cilium's local redirect policy): a policy
// sees its pods in the place of the Service's.
func takeCache(cache *appsv1.DaemonSet, dns *sandbarv1alpha1.EgressDNS) bool {
	if !cache.Spec.Template.Spec.HostNetwork {
		if cache.Spec.Selector == nil || len(cache.Spec.Selector.MatchLabels) == 0 {
			return false
		}
		dns.Namespace, dns.PodLabels, dns.Ports = cache.Namespace, maps.Clone(cache.Spec.Selector.MatchLabels), []int32{sandbarv1alpha1.DefaultDNSPort}
		return true
	}
	var addresses []string
	for i := range cache.Spec.Template.Spec.Containers {
		container := &cache.Spec.Template.Spec.Containers[i]
		addresses = append(addresses, localIPs(slices.Concat(container.Command, container.Args))...)
	}
	addresses = only(addresses)
	dns.Addresses = only(append(dns.Addresses, addresses...))
	return len(addresses) > 0
}

// localIPs are the values of -localip, which Go's package flag takes with one dash or two, and with or without
// an equals sign.
func localIPs(args []string) []string {
	for i, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if !strings.HasPrefix(arg, "-") || name != localIPFlag {
			continue
		}
		if !hasValue && i+1 < len(args) {
			value = args[i+1]
		}
		return strings.Split(value, ",")
	}
	return nil
}

// only returns the addresses of a list, without repetitions and without placeholders and other text.
func only(addresses []string) []string {
	var kept []string
	for _, text := range addresses {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err == nil && addr.Zone() == "" && !slices.Contains(kept, addr.Unmap().String()) {
			kept = append(kept, addr.Unmap().String())
		}
	}
	return kept
}

// describeDNS says where sandboxes resolve names with a setting, for people.
func describeDNS(set *sandbarv1alpha1.EgressDNS) string {
	dns := set.WithDefaults()
	said := fmt.Sprintf("the pods %s of %s at port %s", labels.Set(dns.PodLabels), dns.Namespace, strings.Trim(strings.ReplaceAll(fmt.Sprint(dns.Ports), " ", ", "), "[]"))
	if len(dns.Addresses) > 0 {
		said += ", and " + strings.Join(dns.Addresses, ", ")
	}
	return said
}
