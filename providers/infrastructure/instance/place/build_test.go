// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

func TestAPlacementIsBuiltAsTheGoldenFilesSay(t *testing.T) {
	for name, change := range map[string]func(*scope.Scope){
		"defaults": func(*scope.Scope) {},
		"configured": func(s *scope.Scope) {
			s.Object().SetLabels(map[string]string{"app.example.com/tier": "web", "other.example.com/x": "no", "sandbar.dev/instance-uid": "forged"})
			s.Object().SetAnnotations(map[string]string{"note.example.com/a": "kept", "kubectl.kubernetes.io/x": "no"})
			*s.Infrastructure() = sandbarv1alpha1.InfrastructureProviderSpec{
				Preview: &sandbarv1alpha1.Preview{
					BaseDomain: "p.example.test",
					GatewayRef: &sandbarv1alpha1.GatewayReference{Name: "public", Namespace: "gateways"},
				},
				Isolation: sandbarv1alpha1.Isolation{
					PodSecurity:   "baseline",
					ProviderCIDRs: []string{"198.51.100.7/32", "2001:db8:1::/64"},
					Egress:        sandbarv1alpha1.Egress{DeniedCIDRs: []string{"8.8.8.8/32", "2a00::/16"}},
				},
				Quota: sandbarv1alpha1.Quota{
					Hard:           corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")},
					DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
				},
				InstanceMetadata: sandbarv1alpha1.InstanceMetadata{
					LabelPrefixes:      []string{"app.example.com/", "sandbar.dev/"},
					AnnotationPrefixes: []string{"note.example.com/", "kubectl"},
				},
			}
		},
		"no-egress": func(s *scope.Scope) { s.Infrastructure().Isolation.Egress.Policy = egressNone },
		"openshift-dns": func(s *scope.Scope) {
			s.Infrastructure().Isolation.Egress = sandbarv1alpha1.Egress{Policy: egressNone, DNS: &sandbarv1alpha1.EgressDNS{
				Namespace: "openshift-dns", PodLabels: map[string]string{"dns.operator.openshift.io/daemonset-dns": "default"}, Ports: []int32{5353},
			}}
		},
		"node-local-dns": func(s *scope.Scope) {
			s.Infrastructure().Isolation.Egress = sandbarv1alpha1.Egress{Policy: egressNone, DNS: &sandbarv1alpha1.EgressDNS{
				Addresses: []string{"169.254.20.10", "10.96.0.10/32", "fd00::a"},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewScope()
			change(s)
			golden.Check(t, filepath.Join("testdata", name+".yaml"), render(t, s))
		})
	}
}

func render(t *testing.T, s *scope.Scope) []byte {
	t.Helper()
	ingress, err := BuildIngress(s)
	if err != nil {
		t.Fatal(err)
	}
	egress, err := BuildEgress(s)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := BoundsOf(s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, obj := range []client.Object{BuildNamespace(s), BuildQuota(s, bounds), BuildLimits(s, bounds), ingress, egress, BuildInstance(s, lifecycle.Decision{})} {
		config, err := ApplyConfiguration(obj)
		if err != nil {
			t.Fatal(err)
		}
		document, err := yaml.Marshal(config.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	return out.Bytes()
}

func TestPublicEgressReachesNoAddressThatIsNotPublic(t *testing.T) {
	peers, err := publicInternet([]string{"9.9.9.9/32"})
	if err != nil {
		t.Fatal(err)
	}
	reachable := func(address string) bool {
		addr := netip.MustParseAddr(address)
		for _, peer := range peers {
			if !netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(addr) {
				continue
			}
			for _, except := range peer.IPBlock.Except {
				if netip.MustParsePrefix(except).Contains(addr) {
					return false
				}
			}
			return true
		}
		return false
	}
	for _, address := range []string{
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255",
		"127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "9.9.9.9",
		"::1", "fd00:ec2::254", "fe80::1", "fc00::1", "ff02::1", "64:ff9b::a00:1", "2002:a00:1::", "::a00:1",
	} {
		if reachable(address) {
			t.Errorf("%s can be reached", address)
		}
	}
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.255.255", "2606:4700::1111"} {
		if !reachable(address) {
			t.Errorf("%s cannot be reached", address)
		}
	}
}

func TestDeniedRanges(t *testing.T) {
	for name, test := range map[string]struct {
		denied  []string
		blocks  int
		invalid string
	}{
		"none leaves both families":                    {blocks: 2},
		"a whole family leaves the other":              {denied: []string{"::/0"}, blocks: 1},
		"a range after its whole family is harmless":   {denied: []string{"0.0.0.0/0", "8.8.8.8/32"}, blocks: 1},
		"both families leave nothing":                  {denied: []string{"0.0.0.0/0", "::/0"}},
		"text that is no range is refused":             {denied: []string{"1.2.3/24"}, invalid: "1.2.3/24"},
		"too long a prefix is refused":                 {denied: []string{"10.0.0.0/33"}, invalid: "10.0.0.0/33"},
		"IPv4 in IPv6 is refused, for it means either": {denied: []string{"::ffff:10.0.0.0/104"}, invalid: "::ffff:10.0.0.0/104"},
	} {
		t.Run(name, func(t *testing.T) {
			peers, err := publicInternet(test.denied)
			var configuration *outcome.ConfigurationError
			if errors.As(err, &configuration) != (test.invalid != "") {
				t.Fatalf("error is %v", err)
			}
			if configuration != nil && configuration.Value != test.invalid {
				t.Errorf("the error names %q", configuration.Value)
			}
			if len(peers) != test.blocks {
				t.Errorf("%d blocks, want %d", len(peers), test.blocks)
			}
		})
	}
}

func TestTenantMetadataNeverHasReservedKeys(t *testing.T) {
	everything := []string{""}
	for key, want := range map[string]bool{
		"app":                           true,
		"example.com/app":               true,
		"notsandbar.dev/x":              true,
		"sandbar.dev/instance-uid":      false,
		"a.b.sandbar.dev/x":             false,
		"kubernetes.io/x":               false,
		"app.kubernetes.io/name":        false,
		"pod-security.kubernetes.io/x":  false,
		"node.k8s.io/x":                 false,
		"kro.run/owned":                 false,
		"internal.kro.run/x":            false,
		"kcp.io/cluster":                false,
		"claimed.internal.apis.kcp.io/": false,
	} {
		if _, got := allowed(map[string]string{key: "v"}, everything)[key]; got != want {
			t.Errorf("%s taken: %v, want %v", key, got, want)
		}
	}
	if got := allowed(map[string]string{"app": "v"}, nil); len(got) != 0 {
		t.Errorf("without an allow-list %v is taken", got)
	}
}

func TestEachPasswordIsNewAndLong(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token := Password.Build(fixture.NewScope()).Data[placement.PasswordKey]
		raw, err := base64.RawURLEncoding.DecodeString(string(token))
		if err != nil || len(raw) != secretBytes {
			t.Fatalf("the password holds %d bytes: %v", len(raw), err)
		}
		if seen[string(token)] {
			t.Fatal("a password came twice")
		}
		seen[string(token)] = true
	}
}
