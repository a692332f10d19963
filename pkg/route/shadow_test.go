// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// foreign is an HTTPRoute shop/<name> that is an hour older than ours; parents and hostnames default to ours.
func foreign(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{"parentRefs": []any{map[string]any{"namespace": "infra", "name": "public"}}, "hostnames": []any{"shop.example.com"}}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(spec), &given); err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	maps.Copy(content, given)
	u := &unstructured.Unstructured{Object: copied(map[string]any{"spec": content})}
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetCreationTimestamp(metav1.NewTime(noon.Add(-time.Hour)))
	return u
}

// parsed are HTTPRoutes as they are compared.
func parsed(t testing.TB, routes ...*unstructured.Unstructured) (all []*Parsed) {
	t.Helper()
	for _, u := range routes {
		p, err := Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestWhichRoutesMeet(t *testing.T) {
	const rules = "rules: [{}]"
	ours := foreign(t, "ours", rules)
	for name, c := range map[string]struct {
		other string
		want  bool
	}{
		"the same":                      {rules, true},
		"another hostname":              {"{hostnames: [other.example.com], " + rules + "}", false},
		"a wildcard":                    {`{hostnames: ["*.example.com"], ` + rules + "}", true},
		"no hostname":                   {"{hostnames: [], " + rules + "}", true},
		"another Gateway":               {"{parentRefs: [{name: another}], " + rules + "}", false},
		"a Service in a mesh":           {`{parentRefs: [{group: "", kind: Service, name: public, namespace: edge}], ` + rules + "}", false},
		"one of several that is shared": {`{hostnames: [other.example.com, shop.example.com], ` + rules + "}", true},
	} {
		both := parsed(t, ours, foreign(t, "other", c.other))
		if both[0].Meets(both[1]) != c.want || both[1].Meets(both[0]) != c.want {
			t.Errorf("%s: want %t", name, c.want)
		}
	}
}

// shadowsOf is what others take of the rules of a spec that was attached at noon.
func shadowsOf(t testing.TB, spec *sandbarv1alpha1.SandboxRouteSpec, others ...*unstructured.Unstructured) []Shadow {
	t.Helper()
	ours := render(t, "storefront", spec).Routes
	for _, route := range ours {
		route.SetCreationTimestamp(metav1.NewTime(noon))
	}
	shadows, err := Shadowed(spec, ours, parsed(t, others...))
	if err != nil {
		t.Fatal(err)
	}
	return shadows
}

var extents = map[Extent]string{Perhaps: "perhaps", Some: "some", All: "all"}

func TestWhatOtherRoutesTake(t *testing.T) {
	const own = `[{name: web, backends: [{component: {name: web, port: 80}}]}]` // / with baggage
	withMatches := func(matches string) string {
		return "[{name: web, matches: " + matches + ", backends: [{component: {name: web, port: 80}}]}]"
	}
	selected := func(id string) string {
		return "{name: Baggage, type: RegularExpression, value: '" + expressionBefore + id + expressionBehind + "'}"
	}
	for name, c := range map[string]struct {
		rules, hostnames, other, want, message string
	}{
		"nothing, a catch-all":                             {own, "", "{}", "", ""},
		"nothing, the same prefix":                         {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /}}]}]", "", ""},
		"what is below, a longer prefix":                   {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "some", "requests for /api and below go to shop/baseline, whose path is more specific: give the rule a match of type PathPrefix with the path /api, which shop/baseline routes"},
		"after the remedy, nothing":                        {withMatches("[{path: {value: /api}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "", ""},
		"with a match for that, nothing":                   {withMatches("[{path: {value: /}}, {path: {value: /api}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "", ""},
		"with a shorter match, still":                      {withMatches("[{path: {value: /}}, {path: {value: /api}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api/v1}}]}]", "some", "/api/v1"},
		"with a narrower match, still":                     {withMatches("[{path: {value: /}}, {path: {value: /api}, method: GET}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "some", "/api"},
		"with a match of more headers, still":              {withMatches("[{path: {value: /}}, {path: {value: /api}, headers: [{name: x-user, value: bob}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "some", "/api"},
		"with a match of the same headers, nothing":        {withMatches("[{path: {value: /}, headers: [{name: x-user, value: bob}]}, {path: {value: /api}, headers: [{name: x-user, value: bob}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "", ""},
		"with a match of more parameters, still":           {withMatches("[{path: {value: /}}, {path: {value: /api}, queryParams: [{name: page, value: '1'}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "some", "/api"},
		"some, by a value of our expression":               {withMatches("[{headers: [{name: x-user, type: RegularExpression, value: '^a'}]}]"), "", "rules: [{matches: [{headers: [{name: x-user, value: alice}, " + selected(ownID) + "]}]}]", "some", "is older"},
		"nothing, a longer prefix beside":                  {withMatches("[{path: {value: /web}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /website}}]}]", "", ""},
		"nothing, a shorter prefix":                        {withMatches("[{path: {value: /api/v1}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "", ""},
		"an exact path":                                    {withMatches("[{path: {value: /api}}]"), "", "rules: [{matches: [{path: {type: Exact, value: /api/health}}]}]", "some", "requests for /api/health go to shop/baseline, whose path is more specific: give the rule a match of type Exact with the path /api/health"},
		"nothing, an exact path, of ours too":              {withMatches("[{path: {type: Exact, value: /api}}]"), "", "rules: [{matches: [{path: {type: Exact, value: /api}}]}]", "", ""},
		"nothing, another exact path":                      {withMatches("[{path: {type: Exact, value: /api}}]"), "", "rules: [{matches: [{path: {type: Exact, value: /api/}}]}]", "", ""},
		"nothing, a prefix over an exact path":             {withMatches("[{path: {type: Exact, value: /api}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]", "", ""},
		"a method":                                         {own, "", "rules: [{matches: [{method: POST}]}]", "some", "POST requests go to shop/baseline, which names the method: give the rule a match with the path / and the method POST"},
		"nothing, a method that ours has too":              {withMatches("[{method: POST}]"), "", "rules: [{matches: [{method: POST}]}]", "", ""},
		"nothing, another method":                          {withMatches("[{method: POST}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, method: GET}]}]", "", ""},
		"more headers":                                     {own, "", "rules: [{matches: [{headers: [{name: X-Beta, value: '1'}, {name: x-user, value: alice}]}]}]", "some", "requests with the headers x-beta, x-user go to shop/baseline, which asks for more headers"},
		"as many headers, older":                           {own, "", "rules: [{matches: [{headers: [{name: x-beta, value: '1'}]}]}]", "some", "which has the same conditions and is older"},
		"nothing, a header that cannot be":                 {withMatches("[{headers: [{name: X-User, value: bob}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: x-user, value: alice}]}]}]", "", ""},
		"nothing, a header by an expression":               {withMatches("[{headers: [{name: X-User, value: bob}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: x-user, type: RegularExpression, value: '^a'}]}]}]", "", ""},
		"a header by an expression":                        {withMatches("[{headers: [{name: X-User, value: alice}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: x-user, type: RegularExpression, value: '^a'}]}]}]", "some", "/api"},
		"nothing, baggage without the ID":                  {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: baggage, value: user=alice}]}]}]", "", ""},
		"more parameters":                                  {own, "", "rules: [{matches: [{headers: [{name: x-beta, value: '1'}], queryParams: [{name: page, value: '1'}]}]}]", "some", "requests with the parameters page go to shop/baseline"},
		"nothing, a parameter that cannot be":              {withMatches("[{queryParams: [{name: page, value: '2'}]}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, queryParams: [{name: page, value: '1'}]}]}]", "", ""},
		"nothing, another sandbox":                         {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [" + selected(otherID) + "]}]}]", "", ""},
		"nothing, another sandbox by another header":       {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: x-team, value: " + otherID + "}]}]}]", "", ""},
		"this sandbox by another header":                   {own, "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, headers: [{name: x-team, value: " + ownID + "}]}]}]", "some", "/api"},
		"all, an older route of the sandbox":               {own, "", "rules: [{matches: [{headers: [" + selected(ownID) + "]}]}]", "all", "which has the same conditions and is older: give one of the two a longer path, or delete one"},
		"some, of one match of two":                        {withMatches("[{path: {value: /a}}, {path: {value: /b}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /a}, headers: [" + selected(ownID) + "]}]}]", "some", "is older"},
		"all, of both matches":                             {withMatches("[{path: {value: /a}}, {path: {value: /b}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /a}, headers: [" + selected(ownID) + "]}]}, {matches: [{path: {type: PathPrefix, value: /b}, headers: [" + selected(ownID) + "]}]}]", "all", "is older"},
		"a name below our wildcard":                        {own, "['*.example.com']", "rules: [{}]", "some", "requests for shop.example.com go to shop/baseline, whose hostname is more specific: name shop.example.com in spec.gateway.hostnames"},
		"perhaps, an expression for a name below":          {withMatches("[{path: {value: /web}}]"), "['*.example.com']", "rules: [{matches: [{path: {type: RegularExpression, value: '^/api'}}]}]", "perhaps", "depending on a regular expression, requests for shop.example.com go to shop/baseline"},
		"after that remedy, nothing":                       {own, "['*.example.com', shop.example.com]", "rules: [{}]", "", ""},
		"a longer wildcard":                                {own, "['*.example.com']", "{hostnames: ['*.shop.example.com'], rules: [{}]}", "some", "whose hostname is more specific"},
		"perhaps, a wildcard over our name":                {own, "", "{hostnames: ['*.example.com'], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "perhaps", "unless the Gateway keeps to the order of the Gateway API, requests for /api and below go to shop/baseline"},
		"nothing, a wildcard over our name, the same path": {own, "", "{hostnames: ['*.example.com'], rules: [{}]}", "", ""},
		"nothing, a wildcard over our name, older":         {own, "", "{hostnames: ['*.example.com'], rules: [{matches: [{headers: [" + selected(ownID) + "]}]}]}", "", ""},
		"perhaps, a method of a shorter path":              {withMatches("[{path: {value: /api/v1}}]"), "", "rules: [{matches: [{path: {type: PathPrefix, value: /api}, method: GET}]}]", "perhaps", "unless the Gateway keeps to the order of the Gateway API, GET requests go to shop/baseline"},
		"nothing, a method of the shortest path":           {withMatches("[{path: {value: /api/v1}}]"), "", "rules: [{matches: [{method: GET}]}]", "", ""},
		"nothing, another hostname":                        {own, "", "{hostnames: [www.example.com], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "", ""},
		"perhaps, without hostnames":                       {own, "", "{hostnames: [], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "perhaps", "depending on the hostname of the listener, requests for /api and below go to shop/baseline"},
		"nothing, without hostnames or more":               {own, "", "{hostnames: [], rules: [{}]}", "", ""},
		"nothing, another Gateway":                         {own, "", "{parentRefs: [{namespace: infra, name: internal}], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "", ""},
		"nothing, its own namespace's Gateway":             {own, "", "{parentRefs: [{name: public}], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "", ""},
		"nothing, a Service of the mesh":                   {own, "", "{parentRefs: [{group: '', kind: Service, namespace: infra, name: public}], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "", ""},
		"a listener of the Gateway":                        {own, "", "{parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra, name: public, sectionName: http, port: 80}], rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]}", "some", "/api"},
		"perhaps, an expression":                           {own, "", "rules: [{matches: [{path: {type: RegularExpression, value: '^/api'}}]}]", "perhaps", "the Gateway orders regular expressions of paths as it likes"},
		"perhaps, an expression of ours":                   {withMatches("[{path: {type: RegularExpression, value: '^/api'}}]"), "", "rules: [{}]", "perhaps", "depending on a regular expression, requests for / go to shop/baseline"},
		"nothing, an expression that is not":               {withMatches("[{path: {type: Exact, value: /web}}]"), "", "rules: [{matches: [{path: {type: RegularExpression, value: '^/api'}}]}]", "", ""},
		"nothing, the same expression":                     {withMatches("[{path: {type: RegularExpression, value: '^/api'}}]"), "", "rules: [{matches: [{path: {type: RegularExpression, value: '^/api'}}]}]", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hostnames := c.hostnames
			if hostnames == "" {
				hostnames = "[shop.example.com]"
			}
			spec := read(t, "{sandboxGroupRef: {name: g}, provider: gateway, gateway: {parentRefs: [{namespace: infra, name: public}], hostnames: "+hostnames+"}, rules: "+c.rules+"}")
			shadows := shadowsOf(t, spec, foreign(t, "baseline", c.other))
			if c.want == "" {
				if len(shadows) > 0 {
					t.Errorf("it takes %+v", shadows)
				}
				return
			}
			if len(shadows) != 1 || shadows[0].Rule != "web" || shadows[0].By != "shop/baseline" || extents[shadows[0].Extent] != c.want || !strings.Contains(shadows[0].Message, c.message) {
				t.Errorf("it takes %+v, want %s with %q", shadows, c.want, c.message)
			}
			if got := AllShadowed(spec, shadows); got != (c.want == "all") {
				t.Errorf("all are shadowed: %t", got)
			}
		})
	}
}

// Two routes of one sandbox, with the same conditions: the Gateway API's last words.
func TestTheOlderRouteComesFirst(t *testing.T) {
	spec := read(t, specs["the least"].spec)
	for name, c := range map[string]struct {
		ours, theirs time.Time
		namespace    string
		want         bool
	}{
		"theirs is older":                     {noon, noon.Add(-time.Second), "zz", true},
		"ours is older":                       {noon, noon.Add(time.Second), "aa", false},
		"ours is not created yet":             {time.Time{}, noon, "zz", true},
		"as old, theirs is first by its name": {noon, noon, "aa", true},
		"as old, ours is first by its name":   {noon, noon, "zz", false},
	} {
		ours := render(t, "storefront", spec).Routes
		other := ours[0].DeepCopy()
		other.SetNamespace(c.namespace)
		other.SetCreationTimestamp(metav1.NewTime(c.theirs))
		if !c.ours.IsZero() {
			ours[0].SetCreationTimestamp(metav1.NewTime(c.ours))
		}
		shadows, err := Shadowed(spec, ours, parsed(t, other))
		if err != nil || (len(shadows) == 1) != c.want {
			t.Errorf("%s: %+v, %v", name, shadows, err)
		}
	}
}

func TestShadowsAreInOrderAndOurOwnRoutesTakeNothing(t *testing.T) {
	spec := read(t, specOf(repeated(20, "{name: r%d, matches: [{path: {value: /p%d}}], backends: [{component: {name: web, port: 80}}]}")))
	ours := render(t, "storefront", spec).Routes
	others := append([]*unstructured.Unstructured{
		foreign(t, "b", "rules: [{matches: [{path: {type: Exact, value: /p18/x}}, {path: {type: Exact, value: /p3/x}}]}]"),
		foreign(t, "a", "rules: [{matches: [{path: {type: Exact, value: /p18/x}}]}]"),
	}, ours...)
	shadows, err := Shadowed(spec, ours, parsed(t, others...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range shadows {
		got = append(got, s.Rule+" "+s.By)
	}
	if diff := cmp.Diff([]string{"r3 shop/b", "r18 shop/a", "r18 shop/b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneRuleThatIsLeftIsNotAllShadowed(t *testing.T) {
	spec := read(t, specOf("[{name: a, backends: [{component: {name: web, port: 80}}]}, {name: b, matches: [{path: {value: /b}}], backends: [{component: {name: web, port: 80}}]}]"))
	if AllShadowed(spec, []Shadow{{Rule: "a", Extent: All}, {Rule: "b", Extent: Some}}) {
		t.Error("a rule of which some requests are left counts as shadowed")
	}
	if !AllShadowed(spec, []Shadow{{Rule: "a", Extent: All}, {Rule: "b", Extent: Some}, {Rule: "b", Extent: All}}) {
		t.Error("two rules that are shadowed altogether do not count")
	}
}

// A tenant that writes all that a SandboxRoute may have would keep the controller busy.
func TestTooMuchToCompareIsSaid(t *testing.T) {
	matches := repeated(16, "{path: {value: /a%d}, headers: "+repeated(15, "{name: h%d, value: v}")+"}")
	spec := read(t, strings.Replace(specOf(repeated(32, "{name: r%d, matches: "+strings.ReplaceAll(matches, "%d", "x")+", backends: [{component: {name: web, port: 80}}]}")),
		"[shop.example.com]", repeated(16, "a%d.example.com"), 1))
	var others []*unstructured.Unstructured
	for i := range 40 {
		others = append(others, foreign(t, fmt.Sprintf("b%d", i), "{hostnames: "+repeated(16, "a%d.example.com")+", rules: "+repeated(16, "{matches: [{path: {type: PathPrefix, value: /b%d}}]}")+"}"))
	}
	others = append(others, foreign(t, "a", "rules: [{matches: [{path: {type: PathPrefix, value: /api}}]}]"))
	begin := time.Now()
	_, err := Shadowed(spec, render(t, "storefront", spec).Routes, parsed(t, others...))
	t.Logf("it took %s", time.Since(begin))
	if !errors.Is(err, ErrIncomplete) {
		t.Errorf("err = %v, want ErrIncomplete", err)
	}
}

func TestARouteOfOursThatCannotBeReadIsAnError(t *testing.T) {
	spec := read(t, specs["the least"].spec)
	broken := foreign(t, "broken", "rules: 5")
	if _, err := Shadowed(spec, []*unstructured.Unstructured{broken}, nil); err == nil || !strings.Contains(err.Error(), "shop/broken") {
		t.Errorf("err = %v", err)
	}
	more := read(t, specOf("["+testRule+", {name: other, backends: [{component: {name: web, port: 80}}]}]"))
	if _, err := Shadowed(spec, render(t, "storefront", more).Routes, nil); err == nil {
		t.Error("HTTPRoutes of another spec are taken for those of this one")
	}
}
