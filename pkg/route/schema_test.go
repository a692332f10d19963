// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	testGateway = `gateway: {parentRefs: [{namespace: infra, name: public}], hostnames: [shop.example.com]}`
	testRule    = `{name: web, backends: [{component: {name: web, port: 80}}]}`
)

// repeated is a list of so many items, with their numbers from 0 on.
func repeated(n int, format string) string {
	var items []string
	for i := range n {
		items = append(items, strings.ReplaceAll(format, "%d", strconv.Itoa(i)))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func specOf(rules string) string {
	return "{sandboxGroupRef: {name: g}, provider: gateway, " + testGateway + ", rules: " + rules + "}"
}

func gatewayOf(gateway string) string {
	return "{sandboxGroupRef: {name: g}, provider: gateway, gateway: " + gateway + ", rules: [" + testRule + "]}"
}

func matchOf(match string) string {
	return specOf("[{name: web, matches: [" + match + "], backends: [{component: {name: web, port: 80}}]}]")
}

func backendsOf(backends string) string {
	return specOf("[{name: web, backends: " + backends + "}]")
}

// specs are specs with what is wrong with each, empty for nothing. late means that the schema cannot tell.
var specs = map[string]struct {
	spec, want string
	late       bool
}{
	"the least": {spec: specOf("[" + testRule + "]")},
	"without a group": {
		spec: "{provider: gateway, " + testGateway + ", rules: [{name: web, backends: [{service: {name: web, port: http}}]}]}",
	},
	"all fields": {spec: `{sandboxGroupRef: {name: g}, provider: gateway, selectorHeaderName: X-Sandbox,
		gateway: {parentRefs: [{namespace: infra, name: public, sectionName: https, port: 443}, {namespace: infra, name: public, sectionName: http}], hostnames: [shop.example.com, '*.example.org']},
		rules: [{name: web, matches: [{path: {type: Exact, value: /a%20b}, method: GET, headers: [{name: X-User, value: alice}, {name: tier, type: RegularExpression, value: 'g.*'}], queryParams: [{name: q, value: '1'}]}, {path: {type: RegularExpression, value: '^/v[0-9]+/'}}],
			backends: [{component: {name: web, port: http}, weight: 90}, {service: {name: web, namespace: shop, port: 8080}, weight: 0}]}]}`},
	"proxy":                        {spec: "{sandboxGroupRef: {name: g}, provider: proxy, rules: [{name: web, targetServiceRef: {name: web}, backends: [{component: {name: web, port: 80}}]}]}"},
	"istio":                        {spec: "{sandboxGroupRef: {name: g}, provider: istio, istio: {gateways: [a/b], hosts: [a.example.com]}, rules: [" + testRule + "]}"},
	"a provider that there is not": {spec: "{sandboxGroupRef: {name: g}, provider: ingress, rules: [" + testRule + "]}", want: "spec.provider"},
	"a gateway without its fields": {spec: "{sandboxGroupRef: {name: g}, provider: gateway, rules: [" + testRule + "]}", want: "required with provider gateway"},
	"fields of a gateway with istio": {
		spec: "{sandboxGroupRef: {name: g}, provider: istio, istio: {gateways: [a/b], hosts: [a]}, " + testGateway + ", rules: [" + testRule + "]}", want: "refused with another",
	},
	"istio without its fields":             {spec: "{sandboxGroupRef: {name: g}, provider: istio, rules: [" + testRule + "]}", want: "required with provider istio"},
	"proxy without a target":               {spec: "{sandboxGroupRef: {name: g}, provider: proxy, rules: [" + testRule + "]}", want: "targetServiceRef"},
	"a target with a gateway":              {spec: specOf("[{name: web, targetServiceRef: {name: web}, backends: [{component: {name: web, port: 80}}]}]"), want: "targetServiceRef"},
	"a component without a group":          {spec: "{provider: gateway, " + testGateway + ", rules: [" + testRule + "]}", want: "sandboxGroupRef"},
	"a header that cannot carry the ID":    {spec: "{sandboxGroupRef: {name: g}, provider: gateway, selectorHeaderName: Host, " + testGateway + ", rules: [" + testRule + "]}", want: "cannot carry the ID"},
	"no rules":                             {spec: specOf("[]"), want: "at least 1"},
	"32 rules":                             {spec: specOf(repeated(32, "{name: r%d, backends: [{component: {name: web, port: 80}}]}"))},
	"33 rules":                             {spec: specOf(repeated(33, "{name: r%d, backends: [{component: {name: web, port: 80}}]}")), want: "32"},
	"two rules of one name":                {spec: specOf("[" + testRule + ", " + testRule + "]"), want: "web"},
	"a rule without a name":                {spec: specOf("[{name: '', backends: [{component: {name: web, port: 80}}]}]"), want: "rules[0].name"},
	"a rule with a name in capitals":       {spec: specOf("[{name: Web, backends: [{component: {name: web, port: 80}}]}]"), want: "rules[0].name"},
	"a rule with a long name":              {spec: specOf("[{name: " + strings.Repeat("x", 64) + ", backends: [{component: {name: web, port: 80}}]}]"), want: "rules[0].name"},
	"16 matches":                           {spec: specOf("[{name: web, matches: " + repeated(16, "{path: {value: /a%d}}") + ", backends: [{component: {name: web, port: 80}}]}]")},
	"17 matches":                           {spec: specOf("[{name: web, matches: " + repeated(17, "{path: {value: /a%d}}") + ", backends: [{component: {name: web, port: 80}}]}]"), want: "16"},
	"no backends":                          {spec: backendsOf("[]"), want: "at least 1"},
	"8 backends":                           {spec: backendsOf(repeated(8, "{component: {name: web%d, port: 80}}"))},
	"9 backends":                           {spec: backendsOf(repeated(9, "{component: {name: web%d, port: 80}}")), want: "8"},
	"a backend of neither":                 {spec: backendsOf("[{weight: 1}]"), want: "exactly one of component and service"},
	"a backend of both":                    {spec: backendsOf("[{component: {name: web, port: 80}, service: {name: web, port: 80}}]"), want: "exactly one of component and service"},
	"no weight":                            {spec: backendsOf("[{component: {name: web, port: 80}, weight: 0}]"), want: "at least one weight must be above 0"},
	"one weight of two":                    {spec: backendsOf("[{component: {name: web, port: 80}, weight: 0}, {service: {name: web, port: 80}}]")},
	"a weight below 0":                     {spec: backendsOf("[{component: {name: web, port: 80}, weight: -1}]"), want: "weight"},
	"the largest weight":                   {spec: backendsOf("[{component: {name: web, port: 80}, weight: 1000000}]")},
	"a weight that is too large":           {spec: backendsOf("[{component: {name: web, port: 80}, weight: 1000001}]"), want: "weight"},
	"port 0":                               {spec: backendsOf("[{component: {name: web, port: 0}}]"), want: "port"},
	"port 65536":                           {spec: backendsOf("[{service: {name: web, port: 65536}}]"), want: "port"},
	"a port without a name":                {spec: backendsOf("[{service: {name: web, port: ''}}]"), want: "port"},
	"no Gateway":                           {spec: gatewayOf("{parentRefs: [], hostnames: [a.example.com]}"), want: "parentRefs"},
	"no hostname":                          {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: []}"), want: "hostnames"},
	"17 hostnames":                         {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: " + repeated(17, "a%d.example.com") + "}"), want: "16"},
	"17 Gateways":                          {spec: gatewayOf("{parentRefs: " + repeated(17, "{namespace: infra, name: a%d}") + ", hostnames: [a.example.com]}"), want: "16"},
	"a hostname twice":                     {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: [a.example.com, a.example.com]}"), want: "hostnames[1]"},
	"a hostname in capitals":               {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: [A.example.com]}"), want: "hostnames[0]"},
	"a hostname with a port":               {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: ['a.example.com:80']}"), want: "hostnames[0]"},
	"all hostnames":                        {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: ['*']}"), want: "hostnames[0]"},
	"a wildcard in the middle":             {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}], hostnames: ['a.*.com']}"), want: "hostnames[0]"},
	"a Gateway without a namespace":        {spec: gatewayOf("{parentRefs: [{namespace: '', name: public}], hostnames: [a.example.com]}"), want: "parentRefs[0].namespace"},
	"a Gateway that is not a name":         {spec: gatewayOf("{parentRefs: [{namespace: infra, name: Public}], hostnames: [a.example.com]}"), want: "parentRefs[0].name"},
	"a listener that is not a name":        {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public, sectionName: a/b}], hostnames: [a.example.com]}"), want: "parentRefs[0].sectionName"},
	"a port of a Gateway that is none":     {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public, port: 65536}], hostnames: [a.example.com]}"), want: "parentRefs[0].port"},
	"a Gateway twice":                      {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}, {namespace: infra, name: public, port: 80}], hostnames: [a.example.com]}"), want: "parentRefs"},
	"a Gateway twice, one listener":        {spec: gatewayOf("{parentRefs: [{namespace: infra, name: public}, {namespace: infra, name: public, sectionName: a}], hostnames: [a.example.com]}"), want: "parentRefs"},
	"an empty match":                       {spec: matchOf("{}")},
	"a path without its slash":             {spec: matchOf("{path: {value: a}}"), want: "must begin with /"},
	"a path with a space":                  {spec: matchOf("{path: {value: '/a b'}}"), want: "only characters of a path"},
	"a path with a fragment":               {spec: matchOf("{path: {value: '/a#b'}}"), want: "only characters of a path"},
	"a path with a query":                  {spec: matchOf("{path: {value: '/a?b'}}"), want: "only characters of a path"},
	"a path with an apostrophe":            {spec: matchOf(`{path: {value: "/a'b"}}`)},
	"a path with half of an escape":        {spec: matchOf("{path: {value: '/a%2'}}"), want: "only characters of a path"},
	"a path with two slashes":              {spec: matchOf("{path: {value: /a//b}}"), want: "must not contain"},
	"a path with a step up":                {spec: matchOf("{path: {value: /a/../b}}"), want: "must not contain"},
	"a path with a step nowhere":           {spec: matchOf("{path: {value: /a/./b}}"), want: "must not contain"},
	"a path that ends with a step up":      {spec: matchOf("{path: {value: /a/..}}"), want: "must not contain"},
	"a path that ends nowhere":             {spec: matchOf("{path: {type: Exact, value: /.}}"), want: "must not contain"},
	"a path with an escaped slash":         {spec: matchOf("{path: {value: /a%2fb}}"), want: "must not contain"},
	"a path with dots":                     {spec: matchOf("{path: {value: /a.b/..c/.well-known}}")},
	"a long path":                          {spec: matchOf("{path: {value: /" + strings.Repeat("a", 1023) + "}}")},
	"a path that is too long":              {spec: matchOf("{path: {value: /" + strings.Repeat("a", 1024) + "}}"), want: "1024"},
	"a type of path that there is not":     {spec: matchOf("{path: {type: Glob, value: /a}}"), want: "path.type"},
	"an expression with a backtick":        {spec: matchOf("{path: {type: RegularExpression, value: '/a`) || Path(`/b'}}"), want: "path.value"},
	"an expression that is none":           {spec: matchOf("{path: {type: RegularExpression, value: '/a('}}"), want: "is not a regular expression", late: true},
	"a method that there is not":           {spec: matchOf("{method: PROPFIND}"), want: "method"},
	"a method in lower case":               {spec: matchOf("{method: get}"), want: "method"},
	"15 headers":                           {spec: matchOf("{headers: " + repeated(15, "{name: a%d, value: b}") + "}")},
	"16 headers":                           {spec: matchOf("{headers: " + repeated(16, "{name: a%d, value: b}") + "}"), want: "15"},
	"the header of the selector":           {spec: matchOf("{headers: [{name: Baggage, value: a}]}"), want: "selectorHeaderName"},
	"a header twice":                       {spec: matchOf("{headers: [{name: a, value: b}, {name: a, value: c}]}"), want: "headers[1]"},
	"a header twice, once in capitals":     {spec: matchOf("{headers: [{name: a, value: b}, {name: A, value: c}]}"), want: "is there twice", late: true},
	"a header that is not a token":         {spec: matchOf("{headers: [{name: 'a b', value: b}]}"), want: "headers[0].name"},
	"a header with a backtick":             {spec: matchOf("{headers: [{name: 'a`', value: b}]}"), want: "headers[0].name"},
	"a header without a value":             {spec: matchOf("{headers: [{name: a, value: ''}]}"), want: "headers[0].value"},
	"a value with a backtick":              {spec: matchOf("{headers: [{name: a, value: 'x`) || PathPrefix(`/'}]}"), want: "headers[0].value"},
	"a value with a new line":              {spec: matchOf(`{headers: [{name: a, value: "x\ny"}]}`), want: "headers[0].value"},
	"a long value":                         {spec: matchOf("{headers: [{name: a, value: " + strings.Repeat("é", 4096) + "}]}")},
	"a value that is too long":             {spec: matchOf("{headers: [{name: a, value: " + strings.Repeat("é", 4097) + "}]}"), want: "4096"},
	"a value with a control character":     {spec: matchOf(`{headers: [{name: a, value: "x\x7fy"}]}`), want: "headers[0].value"},
	"a type of value that there is not":    {spec: matchOf("{headers: [{name: a, type: Prefix, value: b}]}"), want: "headers[0].type"},
	"a header's expression that is none":   {spec: matchOf("{headers: [{name: a, type: RegularExpression, value: '('}]}"), want: "is not a regular expression", late: true},
	"16 parameters":                        {spec: matchOf("{queryParams: " + repeated(16, "{name: a%d, value: b}") + "}")},
	"17 parameters":                        {spec: matchOf("{queryParams: " + repeated(17, "{name: a%d, value: b}") + "}"), want: "16"},
	"a parameter twice":                    {spec: matchOf("{queryParams: [{name: a, value: b}, {name: a, value: c}]}"), want: "queryParams[1]"},
	"two parameters that differ in case":   {spec: matchOf("{queryParams: [{name: a, value: b}, {name: A, value: c}]}")},
	"a parameter with a backtick":          {spec: matchOf("{queryParams: [{name: a, value: '`'}]}"), want: "queryParams[0].value"},
	"a parameter's value that is too long": {spec: matchOf("{queryParams: [{name: a, value: " + strings.Repeat("x", 1025) + "}]}"), want: "1024"},
}

// Two lists that part would leave a hole, or refuse what can be.
func TestTheSchemaAndCheckAgree(t *testing.T) {
	api, err := sandboxRoutes()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range specs {
		t.Run(name, func(t *testing.T) {
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(row.spec), &spec); err != nil {
				t.Fatal(err)
			}
			object := copied(map[string]any{"spec": spec})
			problems := strings.Join(api.judge(object, nil), "; ")
			if early := row.want != "" && !row.late; early != (problems != "") {
				t.Errorf("the API server says %q", problems)
			}
			route := &sandbarv1alpha1.SandboxRoute{}
			if err := json.Unmarshal([]byte(asText(object)), route); err != nil { // with its defaults
				t.Fatal(err)
			}
			err := Check(&route.Spec)
			var refused *RefusedError
			switch {
			case row.want == "" && err != nil:
				t.Errorf("Check says %v", err)
			case row.want != "" && (!errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.RouteInvalidSpec || !strings.Contains(refused.Message, row.want)):
				t.Errorf("Check says %v, want a refusal with %q", err, row.want)
			}
		})
	}
}

func TestTheSchemaHasTheSameHeadersForTheID(t *testing.T) {
	api, err := sandboxRoutes()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range selectorHeaders {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(specOf("["+testRule+"]")), &spec); err != nil {
			t.Fatal(err)
		}
		spec["selectorHeaderName"] = name
		if problems := api.judge(copied(map[string]any{"spec": spec}), nil); (len(problems) == 0) != want {
			t.Errorf("%q: the API server says %q", name, problems)
		}
	}
}

func TestTheProviderDoesNotChange(t *testing.T) {
	api, err := sandboxRoutes()
	if err != nil {
		t.Fatal(err)
	}
	of := func(text string) map[string]any {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		return copied(map[string]any{"spec": spec})
	}
	gateway, istio := specs["the least"].spec, specs["istio"].spec
	if problems := api.judge(of(istio), of(gateway)); len(problems) != 1 || !strings.Contains(problems[0], "does not change") {
		t.Errorf("another provider: %q", problems)
	}
	if problems := api.judge(of(specs["all fields"].spec), of(gateway)); len(problems) != 0 {
		t.Errorf("other rules: %q", problems)
	}
}
