// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

// inputOf is a SandboxRoute whose rules are all for Service prod/web, and lead to checkout-web-svc.
func inputOf(t testing.TB, uid, id string, created int64, rules string) Input {
	t.Helper()
	in := Input{
		Key: RouteKey{"c1", "shop", "preview-" + uid}, UID: types.UID(uid), Created: metav1.Unix(created, 0).Rfc3339Copy(), SandboxID: id,
		Spec:    parsed[sandbarv1alpha1.SandboxRouteSpec](t, "{provider: proxy, selectorHeaderName: Baggage, rules: "+rules+"}"),
		Targets: map[string]types.NamespacedName{}, Backends: map[string][]route.Backend{},
	}
	for _, rule := range in.Spec.Rules {
		in.Targets[rule.Name] = types.NamespacedName{Namespace: "prod", Name: "web"}
		for range rule.Backends {
			in.Backends[rule.Name] = append(in.Backends[rule.Name], route.Backend{Namespace: "sb-x", Name: "checkout-web-svc", Port: 80})
		}
	}
	return in
}

func intentOf(t testing.TB, uid, id string, created int64, rules string) *Intent {
	t.Helper()
	all, err := Intents(inputOf(t, uid, id, created, rules))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[types.NamespacedName{Namespace: "prod", Name: "web"}]
}

const simple = "[{name: all, backends: [{component: {name: web, port: 80}}]}]"

func TestTheDocumentHasTheRulesOfAllRoutesInTheOrderOfTheGatewayAPI(t *testing.T) {
	older := intentOf(t, "a", "sbx-aaaaaaaa", 100, `[
		{name: prefix, matches: [{path: {value: /api}}, {path: {value: /api/v1}}, {path: {value: /api}, method: GET}], backends: [{component: {name: web, port: 80}, weight: 9}, {component: {name: web, port: 80}, weight: 1}]},
		{name: exact, matches: [{path: {type: Exact, value: /}}, {path: {type: RegularExpression, value: "/i[0-9]+"}}], backends: [{component: {name: web, port: 80}}]}]`)
	newer := intentOf(t, "b", "sbx-bbbbbbbb", 200, `[
		{name: headers, matches: [{headers: [{name: X-A, value: "<1>"}]}, {queryParams: [{name: q, value: "1"}]}, {headers: [{name: X-A, value: "1"}, {name: x-b, value: "2"}]}], backends: [{component: {name: web, port: 80}}]},
		{name: all, backends: [{component: {name: web, port: 80}}]}]`)
	left := intentOf(t, "c", "sbx-cccccccc", 50, simple).Left()
	doc := documentOf(serviceOf(t, "{}"), nil, []*Intent{left, older, newer}, nil)
	config := wire.Config{}
	if err := json.Unmarshal([]byte(doc.Text), &config); err != nil {
		t.Fatal(err)
	}
	pretty, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/document.golden.json", append(pretty, '\n'))
	if diff := cmp.Diff(map[types.UID]string{"a": older.Hash(), "b": newer.Hash()}, doc.Applied); diff != "" || len(doc.Refused) > 0 {
		t.Errorf("%s; refused: %v", diff, doc.Refused)
	}
	for range 20 {
		if again := documentOf(serviceOf(t, "{}"), nil, []*Intent{left, older, newer}, nil); again.Text != doc.Text {
			t.Fatal("equal input has another document")
		}
	}
}

func TestARouteThatHasNoRoomTakesNothingFromOlderOnes(t *testing.T) {
	rules := func(n, bytes int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("{path: {value: /%s%d}}", strings.Repeat("x", bytes), i))
		}
		return "[{name: all, matches: [" + strings.Join(all, ", ") + "], backends: [{component: {name: web, port: 80}}]}]"
	}
	for name, c := range map[string]struct {
		rules, says string
	}{
		"too many rules": {rules(MaxIntentRules, 0), fmt.Sprintf("more than the %d rules", wire.MaxRules)},
		"too long rules": {rules(30, 700), fmt.Sprintf("more than the %d bytes", wire.MaxBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			var intents []*Intent
			for i := range 6 {
				intent := intentOf(t, strconv.Itoa(i), "sbx-aaaaaaaa", int64(i), c.rules)
				intent.Route.Cluster = strconv.Itoa(i)
				intents = append(intents, intent)
			}
			doc := documentOf(serviceOf(t, "{}"), nil, intents, nil)
			if doc.Applied["0"] == "" || !strings.Contains(doc.Refused["5"], c.says) || len(doc.Applied)+len(doc.Refused) != 6 {
				t.Errorf("%v; refused: %v", doc.Applied, doc.Refused)
			}
			if len(doc.Text) > wire.MaxBytes {
				t.Errorf("the document has %d bytes", len(doc.Text))
			}
		})
	}
	for says, text := range map[string]string{
		fmt.Sprintf("more than the %d that", MaxIntentRules): rules(MaxIntentRules+1, 0),
		fmt.Sprintf("more than the %d that", MaxIntentBytes): rules(100, 1000),
	} {
		var refused *route.RefusedError
		if _, err := Intents(inputOf(t, "a", "sbx-aaaaaaaa", 1, text)); !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v, want %q", err, says)
		}
	}
}

func TestAnIDThatIsNoneMakesNoRule(t *testing.T) {
	for _, id := range []string{"", "sbx-", "sbx-aaaaaaaa,", ".*"} {
		if all, err := Intents(inputOf(t, "a", id, 1, simple)); err == nil {
			t.Errorf("%q: %v", id, all)
		}
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	a, b := intentOf(t, "a", "sbx-aaaaaaaa", 200, simple), intentOf(t, "b", "sbx-bbbbbbbb", 100, simple)
	state := State{Reason: "X", Switched: true, Draining: stamp(time.Unix(5, 1))}
	all := ReadRoutes(map[string]string{
		IntentKey("web", "a"): a.Encode(), IntentKey("web", "b"): b.Encode(), StateKey("web"): state.Encode(),
		IntentKey("api", "z"): a.Encode(), IntentKey("api", "y"): "{", "web": "{}", ".a": "{}",
	})
	if len(all) != 1 || len(all["web"].Intents) != 2 || all["web"].Intents[0].UID != "b" || all["web"].Intents[1].Hash() != a.Hash() || all["web"].State.Encode() != state.Encode() {
		t.Errorf("%+v", all["web"])
	}
	if at := state.Draining.Unix(); at != 6 {
		t.Errorf("a time is rounded down to %d", at)
	}
}

// The promise of a restore: a Service of any form is as before.
func TestARestoredServiceIsAsItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return string(rune('a'+random.IntN(26))) + strconv.Itoa(random.IntN(1000)) }
	texts := func(least int) map[string]string {
		n := least + random.IntN(4)
		if n == 0 {
			return nil
		}
		all := map[string]string{}
		for range n {
			all[text()] = text() + `"<\`
		}
		return all
	}
	for range 500 {
		before := serviceOf(t, "{}")
		before.Labels, before.Annotations, before.Spec.Selector = texts(0), texts(0), texts(1)
		switched := Switched(before, nil)
		if !IsIntercepted(switched) || !HasTraces(switched) || HasTraces(before) {
			t.Fatalf("%+v", switched)
		}
		behind := render(AsOwned(switched, nil), nil, "i").behind
		if diff := cmp.Diff(before.Spec.Selector, behind.Spec.Selector); diff != "" {
			t.Fatal(diff)
		}
		if twice := Switched(switched, behind); encode(twice) != encode(switched) {
			t.Fatal("a switch of what is switched changes it")
		}
		if patched := patchedBy(t, before, Patch(before, switched)); encode(patched) != encode(switched) {
			t.Fatalf("the patch makes of it (-want +got):\n%s", cmp.Diff(switched, patched))
		}
		restored, err := Restored(switched, nil)
		if err == nil {
			restored = patchedBy(t, switched, Patch(switched, restored))
		}
		if err != nil || encode(restored) != encode(before) {
			t.Fatalf("%v (-before +after):\n%s", err, cmp.Diff(before, restored))
		}
	}
}

// patchedBy is a Service after a merge patch.
func patchedBy(t *testing.T, s *corev1.Service, patch []byte) *corev1.Service {
	t.Helper()
	merged, err := jsonpatch.MergePatch([]byte(encode(s)), patch)
	if err != nil {
		t.Fatal(err)
	}
	return parsed[corev1.Service](t, string(merged))
}

func TestWhatSomebodyHasWrittenSinceIsKept(t *testing.T) {
	switched := Switched(serviceOf(t, "{}"), nil)
	behind := render(serviceOf(t, "{}"), nil, "i").behind
	for name, c := range map[string]struct {
		change func()
		want   map[string]string
		lost   bool
	}{
		"nothing":                            {func() {}, map[string]string{"app": "web", "tier": "front"}, false},
		"another selector":                   {func() { switched.Spec.Selector = map[string]string{"app": "web2"} }, map[string]string{"app": "web2"}, false},
		"one key of it, merged":              {func() { switched.Spec.Selector["app"] = "web3" }, map[string]string{"app": "web3", "tier": "front"}, false},
		"all keys of it, merged":             {func() { switched.Spec.Selector["app"], switched.Spec.Selector["tier"] = "web3", "back" }, map[string]string{"app": "web3", "tier": "back"}, false},
		"a further key, merged":              {func() { switched.Spec.Selector["version"] = "2" }, map[string]string{"app": "web", "tier": "front", "version": "2"}, false},
		"one key, of which no more is known": {func() { switched.Spec.Selector["app"], switched.Annotations[AnnotationOriginal] = "web3", "{" }, map[string]string{"app": "web3"}, false},
		"a damaged annotation":               {func() { switched.Annotations[AnnotationOriginal] = "{" }, map[string]string{"app": "web", "tier": "front"}, false},
		"a damaged annotation, all of it":    {func() { switched.Annotations[AnnotationOriginal], behind = "null", nil }, nil, true},
		"the same, with a foreign Service":   {func() { switched.Annotations[AnnotationOriginal], behind = "[]", serviceOf(t, "{}") }, nil, true},
	} {
		switched, behind = Switched(serviceOf(t, "{}"), nil), render(serviceOf(t, "{}"), nil, "i").behind
		c.change()
		restored, err := Restored(switched, behind)
		if c.lost {
			if !errors.Is(err, ErrSelectorLost) {
				t.Errorf("%s: %v, %v", name, restored, err)
			}
			continue
		}
		if err != nil || HasTraces(restored) || cmp.Diff(c.want, restored.Spec.Selector) != "" {
			t.Errorf("%s: %v, %+v", name, err, restored)
		}
	}
}

func TestTheManagerThatHasTheSelectorIsTold(t *testing.T) {
	entry := func(manager string, at int64, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.Unix(at, 0)), FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	s := serviceOf(t, "{}")
	if got := ManagerOf(s); got != "somebody" {
		t.Error(got)
	}
	const selector = `{"f:spec":{"f:selector":{}}}`
	s.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("kubectl", 10, selector), entry("argocd-controller", 20, selector), entry("sandbar", 30, selector), entry("other", 40, `{"f:spec":{"f:ports":{}}}`), entry("broken", 50, "{"), {Manager: "timeless"},
	}
	if got := ManagerOf(s); got != "argocd-controller" {
		t.Error(got)
	}
}

// FuzzReadRoutes: what somebody writes into the ConfigMap by hand must not end the controllers.
func FuzzReadRoutes(f *testing.F) {
	f.Add("web.a", `{"uid":"a","rules":[{"id":"sbx-aaaaaaaa"}]}`)
	f.Add("web.state", `{"switched":true,"draining":"2026-01-01T00:00:00Z"}`)
	f.Add("web.a", `{"uid":"a","rules":[{"match":{"path":null}}]}`)
	f.Fuzz(func(t *testing.T, key, text string) {
		for name, routes := range ReadRoutes(map[string]string{key: text}) {
			if name == "" || strings.Contains(name, ".") {
				t.Errorf("a Service is called %q", name)
			}
			s := serviceOf(t, "{}")
			if doc := documentOf(s, nil, routes.Intents, routes.State.Applied); len(doc.Text) > wire.MaxBytes {
				t.Errorf("%d bytes", len(doc.Text))
			}
			Next(&View{Name: types.NamespacedName{Namespace: "prod", Name: "web"}, Service: s, Routes: *routes, Image: "i"}, time.Unix(1, 0))
		}
	})
}

// TestTheProxiesReadTheDocument: what the controllers write is what the proxies take, as a whole.
func TestTheProxiesReadTheDocument(t *testing.T) {
	one := intentOf(t, "a", "sbx-aaaaaaaa", 100, `[
		{name: all, matches: [{}, {path: {value: /api}, method: GET, headers: [{name: X-A, value: "<1>"}], queryParams: [{name: q, type: RegularExpression, value: "a.*"}]}],
			backends: [{component: {name: web, port: 80}, weight: 0}, {component: {name: web, port: 80}}]},
		{name: exact, matches: [{path: {type: Exact, value: /}}, {path: {type: RegularExpression, value: "/i[0-9]+"}}], backends: [{component: {name: web, port: 80}}]}]`)
	service := serviceOf(t, "{}")
	doc := documentOf(service, nil, []*Intent{one}, nil)
	config, table, err := proxyrules.Parse([]byte(doc.Text), service.Name)
	if err != nil || table.Rules != 4 || len(config.Ports) != len(service.Spec.Ports) {
		t.Fatalf("%v, %+v: %s", err, config, doc.Text)
	}
	drained, ok := draining(doc.Text)
	if _, table, err := proxyrules.Parse([]byte(drained), service.Name); !ok || err != nil || table.Rules != 0 {
		t.Errorf("%v: %s", err, drained)
	}
}

// TestARuleThatProxiesDoNotTakeKeepsNoOtherOut: a document is refused by the proxies as a whole, so that such a rule must not be in it.
func TestARuleThatProxiesDoNotTakeKeepsNoOtherOut(t *testing.T) {
	const large = `[{name: all, matches: [{path: {type: RegularExpression, value: "/[a-z]{999}[a-z]{999}[a-z]{999}"}}], backends: [{component: {name: web, port: 80}}]}]`
	_, err := Intents(inputOf(t, "b", "sbx-bbbbbbbb", 200, large))
	var refused *route.RefusedError
	if !errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.RouteInvalidSpec || !strings.Contains(refused.Message, "more than 2048 instructions") {
		t.Fatalf("%v", err)
	}
	one, bad := intentOf(t, "a", "sbx-aaaaaaaa", 100, simple), intentOf(t, "b", "sbx-bbbbbbbb", 50, simple)
	bad.Rules[0].Match.Path = &sandbarv1alpha1.SandboxRoutePathMatch{Type: sandbarv1alpha1.RoutePathExpression, Value: "/[a-z]{999}[a-z]{999}[a-z]{999}"}
	doc := documentOf(serviceOf(t, "{}"), nil, []*Intent{bad, one}, nil)
	if _, table, err := proxyrules.Parse([]byte(doc.Text), "web"); err != nil || table.Rules != 1 || !strings.Contains(doc.Refused["b"], "instructions") || doc.Applied["a"] == "" {
		t.Errorf("%v, refused %v, applied %v", err, doc.Refused, doc.Applied)
	}
}
