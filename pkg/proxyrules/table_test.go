// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	service        = "shop"
	ownID, otherID = "sbx-abcd1234", "sbx-wxyz9876"
)

func document(rules ...intercept.Rule) *intercept.Config {
	return &intercept.Config{
		Service: service, Rules: rules,
		Ports: []intercept.Port{{Listen: 8080, Baseline: "shop-sandbar-baseline.demo.svc:80", Protocol: intercept.HTTP}},
	}
}

func ruleFor(id, address string, match sandbarv1alpha1.SandboxRouteMatch) intercept.Rule {
	return intercept.Rule{ID: id, Header: "baggage", Match: match, Backends: []intercept.Backend{{Address: address, Weight: 1}}}
}

func parse(t testing.TB, c *intercept.Config) *Table {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	_, table, err := Parse(raw, service)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// request is as net/http's server makes it.
func request(t testing.TB, method, target string, header http.Header) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Request{Method: method, RequestURI: target, URL: u, Header: header}
}

func pick(t testing.TB, table *Table, r *http.Request) string {
	t.Helper()
	backend, err := table.Pick(r)
	switch {
	case err != nil:
		t.Fatal(err)
	case backend == nil:
		return ""
	}
	return backend.Address
}

type (
	routeMatch = sandbarv1alpha1.SandboxRouteMatch
	header     = sandbarv1alpha1.SandboxRouteHeaderMatch
	query      = sandbarv1alpha1.SandboxRouteQueryParamMatch
)

func path(kind sandbarv1alpha1.SandboxRoutePathType, value string) sandbarv1alpha1.SandboxRouteMatch {
	return sandbarv1alpha1.SandboxRouteMatch{Path: &sandbarv1alpha1.SandboxRoutePathMatch{Type: kind, Value: value}}
}

func TestMatchesHaveTheMeaningOfTheGatewayAPI(t *testing.T) {
	const (
		exact, prefix, expression = sandbarv1alpha1.RoutePathExact, sandbarv1alpha1.RoutePathPrefix, sandbarv1alpha1.RoutePathExpression
		like                      = sandbarv1alpha1.RouteValueExpression
	)
	for name, c := range map[string]struct {
		match    sandbarv1alpha1.SandboxRouteMatch
		yes, not []string
	}{
		"all":                           {sandbarv1alpha1.SandboxRouteMatch{}, []string{"GET /", "POST /a/b?c", "OPTIONS *"}, nil},
		"the prefix of all":             {path(prefix, "/"), []string{"GET /", "GET /a", "GET //"}, nil},
		"a prefix of whole elements":    {path(prefix, "/a"), []string{"GET /a", "GET /a/", "GET /a/b", "GET /a?x", "GET /a/../b"}, []string{"GET /", "GET /ab", "GET /A", "GET /b/a", "GET //a", "GET /a%2Fb", "GET /%61"}},
		"a prefix that ends so":         {path(prefix, "/a/"), []string{"GET /a", "GET /a/b"}, []string{"GET /ab"}},
		"an exact path":                 {path(exact, "/a"), []string{"GET /a", "GET /a?x=/b"}, []string{"GET /a/", "GET /a/b", "GET /A", "GET /%61"}},
		"an exact path with an escape":  {path(exact, "/a%20b"), []string{"GET /a%20b"}, []string{"GET /a+b"}},
		"an expression of the whole":    {path(expression, "/v[0-9]+|/w"), []string{"GET /v12", "GET /w"}, []string{"GET /v12/", "GET /x/w", "GET /v1x"}},
		"a method":                      {sandbarv1alpha1.SandboxRouteMatch{Method: "POST"}, []string{"POST /"}, []string{"GET /", "post /"}},
		"a header":                      {sandbarv1alpha1.SandboxRouteMatch{Headers: []header{{Name: "x-ENV", Value: "a"}}}, []string{"GET / a"}, []string{"GET /", "GET / b", "GET / A", "GET / a|a", "GET / ab"}},
		"a header of two lines":         {sandbarv1alpha1.SandboxRouteMatch{Headers: []header{{Name: "X-Env", Value: "a,b"}}}, []string{"GET / a|b", "GET / a,b"}, []string{"GET / a", "GET / b"}},
		"a header by an expression":     {sandbarv1alpha1.SandboxRouteMatch{Headers: []header{{Type: like, Name: "X-Env", Value: "a|b."}}}, []string{"GET / a", "GET / bc"}, []string{"GET / ac", "GET / b", "GET /"}},
		"a parameter":                   {sandbarv1alpha1.SandboxRouteMatch{QueryParams: []query{{Name: "q", Value: "a b"}}}, []string{"GET /?q=a+b", "GET /?x&q=a%20b&q=c", "GET /?%71=a%20b"}, []string{"GET /", "GET /?q", "GET /?q=c&q=a+b", "GET /?Q=a+b", "GET /?q=%zz"}},
		"a parameter by an expression":  {sandbarv1alpha1.SandboxRouteMatch{QueryParams: []query{{Type: like, Name: "q", Value: "[ab]*"}}}, []string{"GET /?q=ab", "GET /?q", "GET /?q="}, []string{"GET /?q=abc", "GET /"}},
		"a parameter with a semicolon":  {sandbarv1alpha1.SandboxRouteMatch{QueryParams: []query{{Name: "q", Value: "a;b"}}}, []string{"GET /?q=a;b"}, []string{"GET /?q=a"}},
		"an expression with a flag":     {path(expression, "(?i)/ab"), []string{"GET /AB"}, []string{"GET /abc"}},
		"an expression of several ways": {path(expression, "/a|/b"), []string{"GET /a", "GET /b"}, []string{"GET /a/b", "GET /ab"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := parse(t, document(ruleFor(ownID, "copy:80", c.match)))
			try := func(asked string, want bool) {
				parts := strings.SplitN(asked, " ", 3)
				h := http.Header{"Baggage": {"sandbox=" + ownID}}
				if len(parts) == 3 {
					h["X-Env"] = strings.Split(parts[2], "|")
				}
				if got := pick(t, table, request(t, parts[0], parts[1], h)) != ""; got != want {
					t.Errorf("%s: matches %t, want %t", asked, got, want)
				}
				delete(h, "Baggage")
				if pick(t, table, request(t, parts[0], parts[1], h)) != "" {
					t.Errorf("%s: matches without the ID", asked)
				}
			}
			for _, asked := range c.yes {
				try(asked, true)
			}
			for _, asked := range c.not {
				try(asked, false)
			}
		})
	}
}

func TestTheFirstRuleInTheOrderOfTheDocumentIsPicked(t *testing.T) {
	config := document(
		ruleFor(ownID, "first:80", path("", "/a")),
		ruleFor(otherID, "second:80", routeMatch{}),
		ruleFor(ownID, "third:80", routeMatch{}),
		ruleFor(ownID, "fourth:80", routeMatch{}),
	)
	config.Rules[3].Header = "x-own"
	table := parse(t, config)
	for name, c := range map[string]struct {
		target, baggage, own, want string
	}{
		"of one sandbox":                    {"/", "sandbox=" + ownID, "", "third:80"},
		"the more special one comes first":  {"/a", "sandbox=" + ownID, "", "first:80"},
		"of two sandboxes":                  {"/", "sandbox=" + ownID + ",sandbox=" + otherID, "", "second:80"},
		"of two sandboxes, the first":       {"/a", "sandbox=" + otherID + ",sandbox=" + ownID, "", "first:80"},
		"of two headers":                    {"/", "sandbox=" + otherID, ownID, "second:80"},
		"of the other header alone":         {"/", "", ownID, "fourth:80"},
		"an ID many times, then the second": {"/", strings.Repeat("sandbox="+ownID+",", 100) + "sandbox=" + otherID, "", "second:80"},
	} {
		h := http.Header{}
		if c.baggage != "" {
			h["Baggage"] = []string{c.baggage}
		}
		if c.own != "" {
			h["X-Own"] = []string{c.own}
		}
		if got := pick(t, table, request(t, "GET", c.target, h)); got != c.want {
			t.Errorf("%s: picked %q, want %q", name, got, c.want)
		}
	}
}

// Three standard deviations: one run of 370 would be outside if the shares were right, were it not for so many requests
// that the bounds are narrow against any real mistake; five are one run in two million.
func TestBackendsShareRequestsByTheirWeights(t *testing.T) {
	config := document(ruleFor(ownID, "a:80", routeMatch{}))
	config.Rules[0].Backends = []intercept.Backend{{Address: "a:80", Weight: 90}, {Address: "none:80"}, {Address: "b:80", Weight: 10}}
	table := parse(t, config)
	const n = 20_000
	got := map[string]int{}
	for range n {
		got[pick(t, table, request(t, "GET", "/", http.Header{"Baggage": {"sandbox=" + ownID}}))]++
	}
	bound := 5 * math.Sqrt(n*0.9*0.1)
	if math.Abs(float64(got["a:80"])-0.9*n) > bound || got["a:80"]+got["b:80"] != n {
		t.Errorf("of %d requests the backends got %v", n, got)
	}
}

// The number of sandboxes costs nothing: a request is compared with the rules of its own ID.
func TestOnlyTheRulesOfTheRequestsIDAreCompared(t *testing.T) {
	costly := path(sandbarv1alpha1.RoutePathExpression, "/(a|b|ab){1,50}c")
	var rules []intercept.Rule
	for i := range intercept.MaxRules - 1 {
		rules = append(rules, ruleFor(fmt.Sprintf("sbx-%08d", i), "x:80", costly))
	}
	table := parse(t, document(append(rules, ruleFor(ownID, "copy:80", routeMatch{}))...))
	target := "/" + strings.Repeat("ab", 2000)
	if got := pick(t, table, request(t, "GET", target, http.Header{"Baggage": {"sandbox=" + ownID}})); got != "copy:80" {
		t.Errorf("picked %q", got)
	}
	h := http.Header{"Baggage": {"sandbox=sbx-00000000"}}
	if allocated := testing.AllocsPerRun(100, func() { _, _ = table.Pick(request(t, "GET", "/", nil)) }); allocated > 4 {
		t.Errorf("a request without an ID costs %v allocations", allocated)
	}
	if got := pick(t, table, request(t, "GET", "/abc", h)); got != "x:80" {
		t.Errorf("picked %q", got)
	}
}

// A tenant's expressions must not keep the processor from the baseline's requests.
func TestWhatComparingMayCostIsBounded(t *testing.T) {
	costly := path(sandbarv1alpha1.RoutePathExpression, "/(a|b|ab){1,50}c")
	var rules []intercept.Rule
	for range 300 {
		rules = append(rules, ruleFor(ownID, "x:80", costly))
	}
	table := parse(t, document(rules...))
	r := request(t, "GET", "/"+strings.Repeat("ab", 4000), http.Header{"Baggage": {"sandbox=" + ownID}})
	if _, err := table.Pick(r); !errors.Is(err, ErrTooCostly) {
		t.Errorf("300 costly rules: %v", err)
	}
	r.Header = http.Header{}
	if backend, err := table.Pick(r); err != nil || backend != nil {
		t.Errorf("the baseline's request: %v, %v", backend, err)
	}
}

func TestADocumentIsRefusedWithTheFieldThatIsWrong(t *testing.T) {
	rule := func(change func(*intercept.Rule)) func(*intercept.Config) {
		return func(c *intercept.Config) {
			c.Rules = append(c.Rules, ruleFor(otherID, "b:80", routeMatch{}))
			change(&c.Rules[1])
		}
	}
	for name, c := range map[string]struct {
		change func(*intercept.Config)
		want   string
	}{
		"another Service":       {func(c *intercept.Config) { c.Service = "other" }, "service"},
		"no port":               {func(c *intercept.Config) { c.Ports = nil }, "ports: must be from 1 to 32"},
		"too many ports":        {func(c *intercept.Config) { c.Ports = make([]intercept.Port, MaxPorts+1) }, "ports: must be from 1 to 32"},
		"a port twice":          {func(c *intercept.Config) { c.Ports = append(c.Ports, c.Ports[0]) }, "ports[1].listen: 8080 is there twice"},
		"port 0":                {func(c *intercept.Config) { c.Ports[0].Listen = 0 }, "ports[0].listen"},
		"port 65536":            {func(c *intercept.Config) { c.Ports[0].Listen = 65536 }, "ports[0].listen"},
		"no baseline":           {func(c *intercept.Config) { c.Ports[0].Baseline = "" }, "ports[0].baseline"},
		"a baseline of no port": {func(c *intercept.Config) { c.Ports[0].Baseline = "shop" }, "ports[0].baseline"},
		"an unknown protocol":   {func(c *intercept.Config) { c.Ports[0].Protocol = "UDP" }, "ports[0].protocol"},
		"too many rules":        {func(c *intercept.Config) { c.Rules = make([]intercept.Rule, intercept.MaxRules+1) }, "rules: has 513, more than 512"},
		"an empty ID":           {rule(func(r *intercept.Rule) { r.ID = "" }), "rules[1].id"},
		"an ID of all":          {rule(func(r *intercept.Rule) { r.ID = ".*" }), "rules[1].id"},
		"a header of all":       {rule(func(r *intercept.Rule) { r.Header = "host" }), "rules[1].header"},
		"an empty header":       {rule(func(r *intercept.Rule) { r.Header = "" }), "rules[1].header"},
		"a header in capitals":  {rule(func(r *intercept.Rule) { r.Header = "Baggage" }), "rules[1].header"},
		"no backend":            {rule(func(r *intercept.Rule) { r.Backends = nil }), "rules[1].backends"},
		"too many backends":     {rule(func(r *intercept.Rule) { r.Backends = make([]intercept.Backend, 9) }), "rules[1].backends: must be from 1 to 8"},
		"no weight":             {rule(func(r *intercept.Rule) { r.Backends[0].Weight = 0 }), "rules[1].backends: have no weight above 0"},
		"a negative weight":     {rule(func(r *intercept.Rule) { r.Backends[0].Weight = -1 }), "rules[1].backends[0].weight"},
		"too much weight":       {rule(func(r *intercept.Rule) { r.Backends[0].Weight = 1_000_001 }), "rules[1].backends[0].weight"},
		"an address of a URL":   {rule(func(r *intercept.Rule) { r.Backends[0].Address = "http://a:80" }), "rules[1].backends[0].address"},
		"an address with a path": {rule(func(r *intercept.Rule) {
			r.Backends[0].Address = "a/b:80"
		}), "rules[1].backends[0].address"},
		"a method of none":      {rule(func(r *intercept.Rule) { r.Match.Method = "PURGE" }), "rules[1].match.method"},
		"a path without slash":  {rule(func(r *intercept.Rule) { r.Match = path("", "a") }), "rules[1].match.path.value"},
		"an exact path without": {rule(func(r *intercept.Rule) { r.Match = path("Exact", "") }), "rules[1].match.path.value"},
		"a kind of path":        {rule(func(r *intercept.Rule) { r.Match = path("Suffix", "/") }), "rules[1].match.path.type"},
		"an expression":         {rule(func(r *intercept.Rule) { r.Match = path("RegularExpression", "(") }), "rules[1].match.path.value"},
		"one that breaks out":   {rule(func(r *intercept.Rule) { r.Match = path("RegularExpression", "/a)|(?:.*") }), "rules[1].match.path.value"},
		"a large expression":    {rule(func(r *intercept.Rule) { r.Match = path("RegularExpression", "/(abc|d){900}") }), "has more than 2048 instructions"},
		"the header of the ID":  {rule(func(r *intercept.Rule) { r.Match.Headers = []header{{Name: "Baggage", Value: "x"}} }), "rules[1].match.headers[0].name"},
		"a kind of header":      {rule(func(r *intercept.Rule) { r.Match.Headers = []header{{Name: "X", Type: "Prefix"}} }), "rules[1].match.headers[0].type"},
		"too many headers":      {rule(func(r *intercept.Rule) { r.Match.Headers = make([]header, 16) }), "rules[1].match"},
		"a kind of parameter":   {rule(func(r *intercept.Rule) { r.Match.QueryParams = []query{{Name: "X", Type: "Prefix"}} }), "rules[1].match.queryParams[0].type"},
	} {
		t.Run(name, func(t *testing.T) {
			config := document(ruleFor(ownID, "a:80", routeMatch{}))
			c.change(config)
			raw, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Parse(raw, service); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused with %v, want %s", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ raw, want string }{
		"too long":          {`{"service":"shop"}` + strings.Repeat(" ", intercept.MaxBytes), "bytes, more than 131072"},
		"not JSON":          {`service: shop`, "is not a document of this version"},
		"an unknown field":  {`{"service":"shop","mirror":true}`, `unknown field "mirror"`},
		"two documents":     {`{"service":"shop"}{}`, "has something behind its end"},
		"nothing":           {``, "is not a document of this version"},
		"an unknown member": {`{"service":"shop","rules":[{"match":{"body":"x"}}]}`, `unknown field "body"`},
	} {
		if _, _, err := Parse([]byte(c.raw), service); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: refused with %v, want %s", name, err, c.want)
		}
	}
}

// TestARequestCostsTheSameForManyRulesWithParameters: the query and the headers of several lines are read once. Each of the rules would
// walk through 60 KiB for each of its parameters.
func TestARequestCostsTheSameForManyRulesWithParameters(t *testing.T) {
	var query strings.Builder
	for query.Len() < 60<<10 {
		query.WriteString("a&")
	}
	r := &http.Request{Method: http.MethodGet, RequestURI: "/?" + query.String() + "p=1", Header: http.Header{"X-Many": {"a", "b"}}}
	to := targetOf(r)
	for range 3 {
		if got, ok := to.parameter("p"); got != "1" || !ok {
			t.Fatalf("%q, %t", got, ok)
		}
		if got, ok := to.header(r.Header, "X-Many"); got != "a,b" || !ok {
			t.Fatalf("%q, %t", got, ok)
		}
	}
	if allocs := testing.AllocsPerRun(10, func() { to.parameter("p"); to.parameter("q"); to.header(r.Header, "X-Many") }); allocs > 0 {
		t.Errorf("a look costs %v allocations", allocs)
	}
}
