// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const routing = `{gateway: {parentRefs: [{namespace: infra, name: public}, {namespace: infra, name: internal, sectionName: http}],
	hostnames: [shop.example.com, '*.preview.example.com', localhost]}}`

func TestWhatABaselineAdmits(t *testing.T) {
	for name, c := range map[string]struct{ routing, parents, hostnames, want string }{
		"its Gateway and hostname":            {routing, "[{namespace: infra, name: public}]", "[shop.example.com]", ""},
		"a listener of its Gateway":           {routing, "[{namespace: infra, name: public, sectionName: https, port: 443}]", "[shop.example.com]", ""},
		"its listener":                        {routing, "[{namespace: infra, name: internal, sectionName: http}]", "[shop.example.com]", ""},
		"its listener by a port":              {routing, "[{namespace: infra, name: internal, sectionName: http, port: 8080}]", "[shop.example.com]", ""},
		"another listener":                    {routing, "[{namespace: infra, name: internal, sectionName: https}]", "[shop.example.com]", "spec.gateway.parentRefs[0]: Gateway infra/internal (listener https) is not one that Baseline shop admits; it admits infra/public, infra/internal (listener http). Name one of those, or ask the operator to add it to spec.routing.gateway.parentRefs of the Baseline"},
		"all listeners, where one is":         {routing, "[{namespace: infra, name: internal}]", "[shop.example.com]", "Gateway infra/internal is not one"},
		"all listeners of a port":             {routing, "[{namespace: infra, name: internal, port: 80}]", "[shop.example.com]", "Gateway infra/internal is not one"},
		"another Gateway":                     {routing, "[{namespace: infra, name: public}, {namespace: infra, name: other}]", "[shop.example.com]", "parentRefs[1]: Gateway infra/other"},
		"another namespace":                   {routing, "[{namespace: kube-system, name: public}]", "[shop.example.com]", "parentRefs[0]: Gateway kube-system/public"},
		"another hostname":                    {routing, "[{namespace: infra, name: public}]", "[shop.example.com, www.example.com]", "spec.gateway.hostnames[1]: hostname www.example.com is not one that Baseline shop admits; it admits shop.example.com, *.preview.example.com, localhost. Name one of those, or ask the operator to add it to spec.routing.gateway.hostnames of the Baseline"},
		"a name below a wildcard":             {routing, "[{namespace: infra, name: public}]", "[a.preview.example.com, a.b.preview.example.com]", ""},
		"the wildcard":                        {routing, "[{namespace: infra, name: public}]", "['*.preview.example.com']", ""},
		"a wildcard below":                    {routing, "[{namespace: infra, name: public}]", "['*.a.preview.example.com']", ""},
		"what the wildcard is below":          {routing, "[{namespace: infra, name: public}]", "[preview.example.com]", "hostname preview.example.com"},
		"a wildcard above":                    {routing, "[{namespace: infra, name: public}]", "['*.example.com']", "hostname *.example.com"},
		"a wildcard over a name":              {routing, "[{namespace: infra, name: public}]", "['*.shop.example.com']", "hostname *.shop.example.com"},
		"a name that ends so, without a dot":  {routing, "[{namespace: infra, name: public}]", "[evilpreview.example.com]", "hostname evilpreview.example.com"},
		"a name below a name":                 {routing, "[{namespace: infra, name: public}]", "[a.shop.example.com]", "hostname a.shop.example.com"},
		"the wildcard's own text in a name":   {routing, "[{namespace: infra, name: public}]", "[preview.example.com.evil.org]", "hostname preview.example.com.evil.org"},
		"a name of one label":                 {routing, "[{namespace: infra, name: public}]", "[localhost]", ""},
		"a wildcard's rest with its dot":      {routing, "[{namespace: infra, name: public}]", "[.preview.example.com]", "hostname .preview.example.com"},
		"an empty hostname":                   {routing, "[{namespace: infra, name: public}]", "['']", "hostnames[0]"},
		"no hostnames":                        {routing, "[{namespace: infra, name: public}]", "[]", "spec.gateway.hostnames: at least one is required; Baseline shop admits shop.example.com, *.preview.example.com, localhost"},
		"a Baseline without routing":          {"{}", "[{namespace: infra, name: public}]", "[shop.example.com]", "it admits none. Name one of those, or ask the operator to add it to spec.routing.gateway.parentRefs"},
		"a Baseline without hostnames":        {"{gateway: {parentRefs: [{namespace: infra, name: public}]}}", "[{namespace: infra, name: public}]", "[shop.example.com]", "it admits none. Name one of those, or ask the operator to add it to spec.routing.gateway.hostnames"},
		"no hostnames, of a Baseline without": {"{gateway: {parentRefs: [{namespace: infra, name: public}]}}", "[{namespace: infra, name: public}]", "[]", "at least one is required"},
		"a Baseline with an empty hostname":   {"{gateway: {parentRefs: [{namespace: infra, name: public}], hostnames: ['']}}", "[{namespace: infra, name: public}]", "[shop.example.com]", "hostname shop.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, admitted := &sandbarv1alpha1.SandboxRouteSpec{Gateway: &sandbarv1alpha1.SandboxRouteGateway{}}, &sandbarv1alpha1.BaselineRouting{}
			for text, into := range map[string]any{c.routing: admitted, c.parents: &spec.Gateway.ParentRefs, c.hostnames: &spec.Gateway.Hostnames} {
				if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			err := Admit(spec, "shop", admitted)
			var refused *RefusedError
			switch {
			case c.want == "" && err != nil:
				t.Errorf("it says %v", err)
			case c.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Message, c.want)):
				t.Errorf("it says %v, want %q", err, c.want)
			case refused != nil && (refused.Reason == sandbarv1alpha1.RouteNotAllowed) != strings.Contains(refused.Message, "admits; it admits"):
				t.Errorf("the reason is %s of %v", refused.Reason, err)
			}
		})
	}
}

func TestARouteWithoutAGatewayIsAdmitted(t *testing.T) {
	if err := Admit(&sandbarv1alpha1.SandboxRouteSpec{}, "shop", &sandbarv1alpha1.BaselineRouting{}); err != nil {
		t.Error(err)
	}
}

func TestMessagesListFive(t *testing.T) {
	for text, want := range map[string]string{"": "none", "a": "a", "a b c d e": "a, b, c, d, e", "a b c d e f g": "a, b, c, d, e and 2 more"} {
		if got := listed(strings.Fields(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestHostnamesThatCover(t *testing.T) {
	for name, c := range map[string]struct {
		outer, inner string
		covers, meet bool
	}{
		"itself":                        {"a.com", "a.com", true, true},
		"another":                       {"a.com", "b.com", false, false},
		"all":                           {"", "a.com", true, true},
		"all, by a name":                {"a.com", "", false, true},
		"a wildcard, a name below":      {"*.a.com", "x.a.com", true, true},
		"a wildcard, two labels below":  {"*.a.com", "x.y.a.com", true, true},
		"a wildcard, its own rest":      {"*.a.com", "a.com", false, false},
		"a wildcard, a longer label":    {"*.a.com", "xa.com", false, false},
		"a wildcard, a wildcard below":  {"*.a.com", "*.x.a.com", true, true},
		"a wildcard, a wildcard above":  {"*.x.a.com", "*.a.com", false, true},
		"a wildcard, another":           {"*.a.com", "*.b.com", false, false},
		"a wildcard, a wildcard beside": {"*.a.com", "*.xa.com", false, false},
	} {
		if got := covers(c.outer, c.inner); got != c.covers {
			t.Errorf("%s: %s covers %s: %t", name, c.outer, c.inner, got)
		}
		if intersect(c.outer, c.inner) != c.meet || intersect(c.inner, c.outer) != c.meet {
			t.Errorf("%s: %s and %s have names in common: %t", name, c.outer, c.inner, !c.meet)
		}
	}
}

func TestWhereRequestsBegin(t *testing.T) {
	spec := read(t, `{sandboxGroupRef: {name: g}, provider: gateway, gateway: {parentRefs: [{namespace: infra, name: public}], hostnames: [shop.example.com, '*.example.org']},
		rules: [
			{name: all, backends: [{component: {name: web, port: 80}}]},
			{name: api, matches: [{path: {value: /api/v1}}, {path: {value: /api/v1}, method: GET}, {path: {type: Exact, value: /a%20b}}, {path: {type: RegularExpression, value: '^/v[0-9]'}}, {method: POST}], backends: [{component: {name: web, port: 80}}]}]}`)
	want := []Endpoint{
		{"all", "shop.example.com", "/", "https://shop.example.com/"},
		{"all", "*.example.org", "/", ""},
		{"api", "shop.example.com", "/api/v1", "https://shop.example.com/api/v1"},
		{"api", "shop.example.com", "/a%20b", "https://shop.example.com/a%20b"},
		{"api", "shop.example.com", "", "https://shop.example.com"},
		{"api", "shop.example.com", "/", "https://shop.example.com/"},
		{"api", "*.example.org", "/api/v1", ""},
		{"api", "*.example.org", "/a%20b", ""},
		{"api", "*.example.org", "", ""},
		{"api", "*.example.org", "/", ""},
	}
	if diff := cmp.Diff(want, Endpoints(spec.Gateway.Hostnames, spec.Rules, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
