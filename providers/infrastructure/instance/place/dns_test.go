// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// reached are the peers of the rules that name ports, with each port and protocol.
func reached(rules []networkingv1.NetworkPolicyEgressRule) []string {
	var all []string
	for _, rule := range rules {
		for _, peer := range rule.To {
			var who string
			if peer.IPBlock != nil {
				who = peer.IPBlock.CIDR
			} else {
				who = peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] + "/" + metav1.FormatLabelSelector(peer.PodSelector)
			}
			for _, port := range rule.Ports {
				all = append(all, fmt.Sprintf("%s %s %s", who, *port.Protocol, port.Port))
			}
		}
	}
	return all
}

func TestWhereDNSIs(t *testing.T) {
	for name, test := range map[string]struct {
		dns     *sandbarv1alpha1.EgressDNS
		want    []string
		invalid string
	}{
		"nothing said is what most clusters have": {want: []string{"kube-system/k8s-app=kube-dns UDP 53", "kube-system/k8s-app=kube-dns TCP 53"}},
		"an empty setting says nothing":           {dns: &sandbarv1alpha1.EgressDNS{}, want: []string{"kube-system/k8s-app=kube-dns UDP 53", "kube-system/k8s-app=kube-dns TCP 53"}},
		"each field has its own default": {
			dns:  &sandbarv1alpha1.EgressDNS{Namespace: "dns"},
			want: []string{"dns/k8s-app=kube-dns UDP 53", "dns/k8s-app=kube-dns TCP 53"},
		},
		"the ports of pods take the place of 53": {
			dns: &sandbarv1alpha1.EgressDNS{Ports: []int32{5353, 1053, 5353}, PodLabels: map[string]string{"a": "b", "c": ""}},
			want: []string{
				"kube-system/a=b,c= UDP 5353", "kube-system/a=b,c= TCP 5353", "kube-system/a=b,c= UDP 1053", "kube-system/a=b,c= TCP 1053",
			},
		},
		"addresses are reached at 53 and at those ports": {
			dns: &sandbarv1alpha1.EgressDNS{Ports: []int32{5353}, Addresses: []string{"169.254.20.10", "2001:db8::53/128"}},
			want: []string{
				"kube-system/k8s-app=kube-dns UDP 5353", "kube-system/k8s-app=kube-dns TCP 5353",
				"169.254.20.10/32 UDP 53", "169.254.20.10/32 TCP 53", "169.254.20.10/32 UDP 5353", "169.254.20.10/32 TCP 5353",
				"2001:db8::53/128 UDP 53", "2001:db8::53/128 TCP 53", "2001:db8::53/128 UDP 5353", "2001:db8::53/128 TCP 5353",
			},
		},
		"text that is not an address is refused":      {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"1.2.3"}}, invalid: "1.2.3"},
		"more than one address is refused":            {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"10.0.0.0/31"}}, invalid: "10.0.0.0/31"},
		"an IPv6 range that ends like IPv4 is, too":   {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"2001:db8::/32"}}, invalid: "2001:db8::/32"},
		"everything is refused":                       {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"0.0.0.0/0"}}, invalid: "0.0.0.0/0"},
		"IPv4 in IPv6 is refused":                     {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"::ffff:10.0.0.1"}}, invalid: "::ffff:10.0.0.1"},
		"and so it is as a range":                     {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"::ffff:10.0.0.1/128"}}, invalid: "::ffff:10.0.0.1/128"},
		"an address of one link is refused":           {dns: &sandbarv1alpha1.EgressDNS{Addresses: []string{"fe80::1%eth0"}}, invalid: "fe80::1%eth0"},
		"a key that no pod can have is refused":       {dns: &sandbarv1alpha1.EgressDNS{PodLabels: map[string]string{"a b": "c"}}, invalid: "a b=c"},
		"a value that no pod can have is refused too": {dns: &sandbarv1alpha1.EgressDNS{PodLabels: map[string]string{"a": "b c"}}, invalid: "a=b c"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := dnsRules(test.dns)
			var configuration *outcome.ConfigurationError
			if errors.As(err, &configuration) != (test.invalid != "") {
				t.Fatalf("error is %v", err)
			}
			if configuration != nil && configuration.Value != test.invalid {
				t.Errorf("the error names %q", configuration.Value)
			}
			if got := reached(rules); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What is tried must be what placements have: only the pods that it is about differ.
func TestTheEgressThatIsTriedIsThatOfPlacements(t *testing.T) {
	s := fixture.NewScope()
	s.Infrastructure().Isolation.Egress.DNS = &sandbarv1alpha1.EgressDNS{Namespace: "dns", Addresses: []string{"169.254.20.10"}}
	placed, err := BuildEgress(s)
	if err != nil {
		t.Fatal(err)
	}
	own := metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	tried, err := EgressOf(s.Infrastructure(), own)
	if err != nil {
		t.Fatal(err)
	}
	if got := metav1.FormatLabelSelector(&tried.PodSelector); got != "a=b" {
		t.Errorf("it is about the pods %s", got)
	}
	if len(tried.Egress) != len(placed.Spec.Egress) || !slices.Equal(reached(tried.Egress[:2]), reached(placed.Spec.Egress[:2])) {
		t.Errorf("tried %+v, placements have %+v", tried.Egress, placed.Spec.Egress)
	}
	if got := metav1.FormatLabelSelector(tried.Egress[2].To[0].PodSelector); got != "a=b" {
		t.Errorf("it reaches the pods %s of its own namespace", got)
	}
}

// dnsSchema is the schema of the setting as the API server of the provider workspace has it.
func dnsSchema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	raw, err := crds.Files.ReadFile("sandbar.dev_infrastructureproviders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["isolation"].Properties["egress"].Properties["dns"]
}

func TestTheTableOfLimitsHasTheBoundsOfDNS(t *testing.T) {
	properties := dnsSchema(t).Properties
	labels, ports, addresses := properties["podLabels"].MaxProperties, properties["ports"].MaxItems, properties["addresses"].MaxItems
	if labels == nil || ports == nil || addresses == nil {
		t.Fatal("a field has no bound")
	}
	limitstable.Check(t, "../../../../docs/limits.md", "The provider's own", false, limitstable.Limit{
		Name:   "`isolation.egress.dns`",
		Number: fmt.Sprintf("%d podLabels, %d ports, %d addresses", *labels, *ports, *addresses),
		Says:   []string{fmt.Sprintf("must have at most %d items", *addresses)},
	})
}

// The API server refuses most of what cannot be, with the field and the number.
func TestWhatTheAPIServerRefusesOfDNS(t *testing.T) {
	schema, internal := dnsSchema(t), apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := apiservervalidation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int, text string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(text+", ", n), ", ") + "]"
	}
	for text, refused := range map[string]string{
		"{}": "",
		"{namespace: openshift-dns, podLabels: {dns.operator.openshift.io/daemonset-dns: default}, ports: [5353]}": "",
		"{addresses: [169.254.20.10, 10.96.0.10/32, 'fd00::a', 'fd00::a/128']}":                                    "",
		"{ports: " + many(4, "53") + "}":                      "",
		"{ports: " + many(5, "53") + "}":                      "must have at most 4 items",
		"{ports: []}":                                         "should have at least 1 items",
		"{ports: [0]}":                                        "greater than or equal to 1",
		"{ports: [65536]}":                                    "less than or equal to 65535",
		"{addresses: " + many(16, "192.0.2.1") + "}":          "",
		"{addresses: " + many(17, "192.0.2.1") + "}":          "must have at most 16 items",
		"{addresses: [10.0.0.0/8]}":                           "dns.addresses[0]",
		"{addresses: [dns.example.com]}":                      "dns.addresses[0]",
		"{addresses: ['" + strings.Repeat("0:", 21) + "00']}": "may not be more than 43 bytes",
		"{podLabels: {}}":                                     "at least 1",
		"{podLabels: {a: b, b: b, c: b, d: b, e: b, f: b, g: b, h: b, i: b}}": "must have at most 8 items",
		"{namespace: Kube-System}":                     "dns.namespace",
		"{namespace: " + strings.Repeat("a", 64) + "}": "may not be more than 63 bytes",
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		problems := apiservervalidation.ValidateCustomResource(field.NewPath("dns"), value, validator).ToAggregate()
		if (problems != nil) != (refused != "") || problems != nil && !strings.Contains(problems.Error(), refused) {
			t.Errorf("%s: %v, want %q", text, problems, refused)
		}
	}
}
