// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// The names of the NetworkPolicies in each placement, and what they refer to.
const (
	IngressPolicy = "sandbar-ingress"
	EgressPolicy  = "sandbar-egress"

	// egressNone is the Egress policy that leaves DNS and the placement itself only.
	egressNone = "None"

	labelAppName       = "app.kubernetes.io/name"
	providerAppName    = "sandbar-provider"
	labelNamespaceName = corev1.LabelMetadataName
)

// Ranges that are not the public internet, from the IANA special-purpose registries
// (https://www.iana.org/assignments/iana-ipv4-special-registry and …-ipv6-…). They hold the
// metadata services (169.254.169.254, fd00:ec2::254), carrier-grade NAT and everything that
// maps IPv4 into IPv6, by which a private IPv4 address could be reached under another name.
var (
	nonPublicIPv4 = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
		"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
	nonPublicIPv6 = prefixes(
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	)
	everyIPv4 = netip.MustParsePrefix("0.0.0.0/0")
	everyIPv6 = netip.MustParsePrefix("::/0")
)

func prefixes(cidrs ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(cidrs))
	for i, cidr := range cidrs {
		parsed[i] = netip.MustParsePrefix(cidr)
	}
	return parsed
}

// BuildIngress denies what comes in, except from the provider (by its pods, or by addresses
// where it runs elsewhere), from the placement itself, from the gateway of previews and, for copies of a Baseline, from its
// Gateways.
//
// A gateway is admitted on all ports: a NetworkPolicy names ports of containers, and a
// contract names those of Services. Which Service it leads to is the choice of the graph, or of a SandboxRoute.
func BuildIngress(s *scope.Scope) (*networkingv1.NetworkPolicy, error) {
	spec := s.Infrastructure()
	from := []networkingv1.NetworkPolicyPeer{
		inNamespace(s.Names().SystemNamespace(), map[string]string{labelAppName: providerAppName}),
		{PodSelector: &metav1.LabelSelector{}},
	}
	for _, cidr := range spec.Isolation.ProviderCIDRs {
		prefix, err := parseCIDR("spec.isolation.providerCIDRs", cidr)
		if err != nil {
			return nil, err
		}
		from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: prefix.String()}})
	}
	if p := spec.Preview; p != nil && p.GatewayRef != nil {
		from = append(from, inNamespace(p.GatewayRef.Namespace, nil))
	}
	if b := s.PlacementBaseline(); b != nil {
		from = append(from, inGateways(b)...)
		if b.Spec.Network.IsReachableFromBaseline() {
			from = append(from, inBaseline(b)...)
		}
	}
	return policy(s, IngressPolicy, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: from}},
	}), nil
}

// BuildEgress denies what goes out, except to DNS, to the placement itself and, unless the
// operator says None, to the public internet.
func BuildEgress(s *scope.Scope) (*networkingv1.NetworkPolicy, error) {
	spec, err := EgressOf(s.Infrastructure(), metav1.LabelSelector{})
	if err != nil {
		return nil, err
	}
	if b := s.PlacementBaseline(); b != nil && b.Spec.Network.ReachesBaseline() {
		spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{To: inBaseline(b)})
	}
	return policy(s, EgressPolicy, spec), nil
}

// inBaseline selects the pods of a Baseline's namespaces. What an operator withdraws is closed at once, though copies run on.
func inBaseline(b *sandbarv1alpha1.Baseline) (peers []networkingv1.NetworkPolicyPeer) {
	for _, alias := range baseline.Aliases(&b.Spec) {
		if namespace, ok := baseline.Namespace(&b.Spec, alias); ok {
			peers = append(peers, inNamespace(namespace, nil))
		}
	}
	return peers
}

// inGateways selects the pods of the namespaces of the Gateways by which requests come to the copies of a Baseline.
func inGateways(b *sandbarv1alpha1.Baseline) (peers []networkingv1.NetworkPolicyPeer) {
	var namespaces []string
	for _, ref := range b.Spec.Routing.Gateway.ParentRefs {
		namespaces = append(namespaces, ref.Namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		peers = append(peers, inNamespace(namespace, nil))
	}
	return peers
}

// EgressOf is what BuildEgress says of the pods that own selects, which reach each other. It is the
// whole placement there, and one pod where the operator's settings are tried (package netcheck). The
// error is an outcome.ConfigurationError.
func EgressOf(spec *sandbarv1alpha1.InfrastructureProviderSpec, own metav1.LabelSelector) (networkingv1.NetworkPolicySpec, error) {
	egress := spec.Isolation.Egress
	rules, err := dnsRules(egress.DNS)
	if err != nil {
		return networkingv1.NetworkPolicySpec{}, err
	}
	rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &own}}})
	if egress.Policy != egressNone {
		public, err := publicInternet(egress.DeniedCIDRs)
		if err != nil {
			return networkingv1.NetworkPolicySpec{}, err
		}
		if len(public) > 0 {
			rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: public})
		}
	}
	return networkingv1.NetworkPolicySpec{
		PodSelector: own,
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      rules,
	}, nil
}

// publicInternet is every address without the non-public ranges and the denied ones. A family
// that is denied as a whole is left out, because an exception must be smaller than its range.
func publicInternet(denied []string) ([]networkingv1.NetworkPolicyPeer, error) {
	except := map[netip.Prefix][]netip.Prefix{
		everyIPv4: slices.Clone(nonPublicIPv4),
		everyIPv6: slices.Clone(nonPublicIPv6),
	}
	for _, cidr := range denied {
		prefix, err := parseCIDR("spec.isolation.egress.deniedCIDRs", cidr)
		if err != nil {
			return nil, err
		}
		every := everyIPv6
		if prefix.Addr().Is4() {
			every = everyIPv4
		}
		if prefix.Bits() == 0 {
			delete(except, every)
		} else if _, ok := except[every]; ok {
			except[every] = append(except[every], prefix)
		}
	}
	var peers []networkingv1.NetworkPolicyPeer
	for _, every := range []netip.Prefix{everyIPv4, everyIPv6} {
		ranges, ok := except[every]
		if !ok {
			continue
		}
		block := &networkingv1.IPBlock{CIDR: every.String()}
		for _, prefix := range ranges {
			if cidr := prefix.String(); !slices.Contains(block.Except, cidr) {
				block.Except = append(block.Except, cidr)
			}
		}
		peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: block})
	}
	return peers, nil
}

// parseCIDR reads an operator's range. The CRD's pattern admits text that is no range; to drop
// such a text silently would open what the operator meant to close.
func parseCIDR(field, cidr string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, &outcome.ConfigurationError{Field: field, Value: cidr, Want: "an IPv4 or IPv6 range such as 203.0.113.0/24"}
	}
	return prefix.Masked(), nil
}

func policy(s *scope.Scope, name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: s.ObjectMeta(name),
		Spec:       spec,
	}
}

// inNamespace selects pods of one namespace; without labels all of them.
func inNamespace(namespace string, pods map[string]string) networkingv1.NetworkPolicyPeer {
	peer := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelNamespaceName: namespace}},
	}
	if pods != nil {
		peer.PodSelector = &metav1.LabelSelector{MatchLabels: pods}
	}
	return peer
}
