// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

func TestACloneHasTheRoutingThatIsSaid(t *testing.T) {
	for name, row := range map[string]struct {
		route CloneRoute
		want  string // YAML
	}{
		"at the only Gateway": {
			CloneRoute{Provider: "gateway", Hosts: []string{"shop.example.com"}, Intercepts: []string{"web=front:http"}},
			`{provider: gateway, gateway: {parentRefs: [{namespace: edge, name: public, sectionName: tls}], hostnames: [shop.example.com]},
			interceptions: [{name: web, targetService: {name: web, namespace: shop}, routeTo: {workload: front, port: http}}]}`,
		},
		"at several, with paths": {
			CloneRoute{
				Provider: "gateway", Gateways: []string{"a/b", "a/c/web"}, Hosts: []string{"x.example.com", "y.example.com"},
				Intercepts: []string{"web/=front:80", "web/api/v=1=front:8080", "api/api=front:http"},
			},
			`{provider: gateway, gateway: {parentRefs: [{namespace: a, name: b}, {namespace: a, name: c, sectionName: web}], hostnames: [x.example.com, y.example.com]}, interceptions: [
			{name: web, targetService: {name: web, namespace: shop}, matches: [{path: {type: PathPrefix, value: /}}], routeTo: {workload: front, port: 80}},
			{name: web-2, targetService: {name: web, namespace: shop}, matches: [{path: {type: PathPrefix, value: /api/v=1}}], routeTo: {workload: front, port: 8080}},
			{name: api, targetService: {name: api}, matches: [{path: {type: PathPrefix, value: /api}}], routeTo: {workload: front, port: http}}]}`,
		},
		"by a proxy": {
			CloneRoute{Provider: "proxy", Intercepts: []string{"web/api=front:http"}},
			`{provider: proxy, interceptions: [{name: web, targetService: {name: web, namespace: shop}, matches: [{path: {type: PathPrefix, value: /api}}], routeTo: {workload: front, port: http}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clone, err := CloneTexts{Workloads: []string{"front=shop/web"}, Route: row.route}.Parse()
			if err != nil {
				t.Fatal(err)
			}
			got, err := clone.Spec(catalogueOf())
			if err != nil {
				t.Fatal(err)
			}
			want := &sandbarv1alpha1.SandboxRouting{}
			if err := yaml.UnmarshalStrict([]byte(row.want), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Routing); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARoutingThatCannotBeSaysWhatToWrite(t *testing.T) {
	host, intercept := []string{"a.example.com"}, []string{"web=web:80"}
	for want, route := range map[string]CloneRoute{
		"say with --route gateway": {Hosts: host},
		`--route "mesh": write gateway or proxy; another provider is written`: {Provider: "mesh", Hosts: host, Intercepts: intercept},
		"--route proxy has neither --gateway nor --host":                      {Provider: "proxy", Hosts: host, Intercepts: intercept},
		"--route proxy needs --intercept SERVICE[/PATH]=WORKLOAD:PORT":        {Provider: "proxy"},
		"--route gateway needs --host":                                        {Provider: "gateway", Intercepts: intercept},
		"--route gateway needs --intercept SERVICE[/PATH]=WORKLOAD:PORT":      {Provider: "gateway", Hosts: host},
		`gateway "public": write NAMESPACE/NAME`:                              {Provider: "gateway", Hosts: host, Intercepts: intercept, Gateways: []string{"public"}},
		`intercept "web": write SERVICE=WORKLOAD:PORT`:                        {Provider: "gateway", Hosts: host, Intercepts: []string{"web"}},
		`intercept "web=web": write SERVICE=WORKLOAD:PORT`:                    {Provider: "gateway", Hosts: host, Intercepts: []string{"web=web"}},
		`intercept "web=api:80": there is no workload api; there is web`:      {Provider: "gateway", Hosts: host, Intercepts: []string{"web=api:80"}},
		"the Baseline shop has no Service nothing; it has api, web":           {Provider: "gateway", Hosts: host, Intercepts: []string{"nothing=web:80"}},
	} {
		clone, err := CloneTexts{Workloads: []string{"shop/web"}, Route: route}.Parse()
		if err == nil {
			_, err = clone.Spec(catalogueOf())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: it says %v, want %q", route, err, want)
		}
	}
}

func TestTheGatewayOfACloneIsTheOnlyOneOfTheBaseline(t *testing.T) {
	clone, err := CloneTexts{Workloads: []string{"shop/web"}, Route: CloneRoute{Provider: "gateway", Hosts: []string{"a.example.com"}, Intercepts: []string{"unlisted=web:80"}}}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	b := catalogueOf()
	b.ServicesFound++ // one is not listed
	if _, err := clone.Spec(b); err != nil {
		t.Errorf("a Service that the catalogue has left out: %v", err)
	}
	b.Routing.Gateways = append(b.Routing.Gateways, client.BaselineGateway{Namespace: "edge", Name: "inner"})
	if _, err := clone.Spec(b); err == nil || !strings.Contains(err.Error(), "say with --gateway which one: edge/public/tls, edge/inner") {
		t.Errorf("of two: %v", err)
	}
	b.Routing = nil
	if _, err := clone.Spec(b); err == nil || !strings.Contains(err.Error(), "admits no Gateway: ask the operator") {
		t.Errorf("of none: %v", err)
	}
}
