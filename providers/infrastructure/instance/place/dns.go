// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

const dnsField = "spec.isolation.egress.dns"

// dnsRules allow DNS: to pods at their own ports, and to single addresses at these and at port 53.
func dnsRules(set *sandbarv1alpha1.EgressDNS) ([]networkingv1.NetworkPolicyEgressRule, error) {
	dns := set.WithDefaults()
	if err := checkLabels(dns.PodLabels); err != nil {
		return nil, err
	}
	rules := []networkingv1.NetworkPolicyEgressRule{{
		To:    []networkingv1.NetworkPolicyPeer{inNamespace(dns.Namespace, dns.PodLabels)},
		Ports: dnsPorts(dns.Ports),
	}}
	if len(dns.Addresses) == 0 {
		return rules, nil
	}
	servers := networkingv1.NetworkPolicyEgressRule{Ports: dnsPorts(append([]int32{sandbarv1alpha1.DefaultDNSPort}, dns.Ports...))}
	for _, address := range dns.Addresses {
		prefix, err := parseAddress(dnsField+".addresses", address)
		if err != nil {
			return nil, err
		}
		servers.To = append(servers.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: prefix.String()}})
	}
	return append(rules, servers), nil
}

// dnsPorts are ports by UDP and, for answers that are too long for it, by TCP.
func dnsPorts(numbers []int32) []networkingv1.NetworkPolicyPort {
	var ports []networkingv1.NetworkPolicyPort
	seen := map[int32]bool{}
	for _, number := range numbers {
		if seen[number] {
			continue
		}
		seen[number] = true
		for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
			ports = append(ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))})
		}
	}
	return ports
}

// checkLabels refuses what no pod can have as a label. The CRD bounds how many there are.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(labels[key])) > 0 {
			return &outcome.ConfigurationError{
				Field: dnsField + ".podLabels", Value: key + "=" + labels[key], Want: "a label of a pod such as k8s-app=kube-dns",
			}
		}
	}
	return nil
}

// parseAddress reads one address, which may be written as a range of one. A wider range would open more
// than a DNS server.
func parseAddress(field, text string) (netip.Prefix, error) {
	wrong := &outcome.ConfigurationError{Field: field, Value: text, Want: "one IPv4 or IPv6 address such as 169.254.20.10"}
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Is4In6() || addr.Zone() != "" {
			return netip.Prefix{}, wrong
		}
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() || !prefix.IsSingleIP() {
		return netip.Prefix{}, wrong
	}
	return prefix, nil
}
