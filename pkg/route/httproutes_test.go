// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var (
	testID        = placement.ID{Origin: "2hx1zq5kq0a8v3mw", UID: "our-uid"}
	testPlacement = testID.Namespace()
	testLabels    = testID.Labels("sandbox-group")
)

// resolved has a Service for each backend: of the component in the placement, of a Service in a namespace called rt-<alias>.
func resolved(spec *sandbarv1alpha1.SandboxRouteSpec) map[string][]Backend {
	all := map[string][]Backend{}
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		for j := range rule.Backends {
			b := &rule.Backends[j]
			switch {
			case b.Component != nil:
				all[rule.Name] = append(all[rule.Name], Backend{testPlacement, "storefront-" + b.Component.Name + "-svc", port(b.Component.Port.IntValue())})
			case b.Service != nil:
				all[rule.Name] = append(all[rule.Name], Backend{"rt-" + b.Service.Namespace, b.Service.Name, port(b.Service.Port.IntValue())})
			}
		}
	}
	return all
}

// port is a number, 8080 for a name.
func port(number int) int32 {
	if number == 0 {
		return 8080
	}
	return int32(number)
}

func inputOf(name string, spec *sandbarv1alpha1.SandboxRouteSpec) Input {
	return Input{
		Name: name, Spec: spec, Namespace: testPlacement, SandboxID: ownID, Backends: resolved(spec), Labels: testLabels,
		Annotations: map[string]string{"sandbar.dev/instance-name": name},
	}
}

// read is a spec as the API server has it, with its defaults.
func read(t testing.TB, text string) *sandbarv1alpha1.SandboxRouteSpec {
	t.Helper()
	api, err := sandboxRoutes()
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	object := copied(map[string]any{"spec": spec})
	if problems := api.judge(object, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	route := &sandbarv1alpha1.SandboxRoute{}
	raw, _ := yaml.Marshal(object)
	if err := yaml.UnmarshalStrict(raw, route); err != nil {
		t.Fatal(err)
	}
	return &route.Spec
}

func render(t testing.TB, name string, spec *sandbarv1alpha1.SandboxRouteSpec) *Rendered {
	t.Helper()
	r, err := Render(inputOf(name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func document(t testing.TB, r *Rendered) []byte {
	t.Helper()
	grants, err := Grants(testPlacement, r.Granted, testLabels)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, object := range slices.Concat(r.Routes, grants) {
		out, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(out)
	}
	return text.Bytes()
}

// row is a file of testdata/render.
type row struct {
	// Why says what the row shows.
	Why string `json:"why"`
	// Name of the SandboxRoute.
	Name string         `json:"name"`
	Spec map[string]any `json:"spec"`
}

func TestWhatIsRendered(t *testing.T) {
	stack, err := stackGatewayAPI()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/render/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/render has no rows: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r, spec := rowOf(t, file)
			first := render(t, r.Name, spec)
			shown := document(t, first)
			if !bytes.Equal(shown, document(t, render(t, r.Name, spec))) {
				t.Error("two renders of one input differ")
			}
			golden.Check(t, strings.TrimSuffix(file, ".in.yaml")+".golden.yaml", shown)
			sound(t, spec, first)
			stack.take(t, first)
		})
	}
}

// The stack has an older release of the Gateway API than many clusters.
func TestWhatIsRenderedIsValidForLaterReleases(t *testing.T) {
	files, err := filepath.Glob("testdata/render/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/render has no rows: %v", err)
	}
	for _, version := range []string{"v1.5.1", "v1.6.3"} {
		api, err := gatewayAPIOf(version)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		for _, file := range files {
			t.Run(version+"/"+filepath.Base(file), func(t *testing.T) {
				r, spec := rowOf(t, file)
				api.take(t, render(t, r.Name, spec))
			})
		}
	}
}

func rowOf(t *testing.T, file string) (row, *sandbarv1alpha1.SandboxRouteSpec) {
	t.Helper()
	var r row
	if err := yaml.UnmarshalStrict(readFile(t, file), &r); err != nil {
		t.Fatal(err)
	}
	if r.Why == "" {
		t.Errorf("%s does not say why it is there", file)
	}
	raw, _ := yaml.Marshal(r.Spec)
	return r, read(t, string(raw))
}

func TestARenderDoesNotChangeItsInput(t *testing.T) {
	in := inputOf("shop", read(t, specs["all fields"].spec))
	before, err := yaml.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Routes[0].SetLabels(map[string]string{"a": "b"})
	if after, _ := yaml.Marshal(in); !bytes.Equal(before, after) {
		t.Errorf("the input has changed:\n%s\nwas\n%s", after, before)
	}
}

// Mistakes of the caller would lead requests to a Service that the tenant has not named.
func TestWhatIsNotRendered(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Input)
		want    string
		refusal bool
	}{
		"nothing":                        {func(in *Input) { *in = Input{} }, "needs the name", false},
		"a namespace of something else":  {func(in *Input) { in.Namespace = "default" }, "the namespace of a placement", false},
		"another provider":               {func(in *Input) { in.Spec.Provider = sandbarv1alpha1.RouteByProxy }, "for provider gateway", false},
		"an ID that is not one":          {func(in *Input) { in.SandboxID = ".*" }, "is not the ID of a sandbox", false},
		"a spec that is wrong":           {func(in *Input) { in.Spec.Rules[0].Name = "" }, "rules[0].name", true},
		"a backend too few":              {func(in *Input) { in.Backends["web"] = in.Backends["web"][:1] }, "has 2 backends, and 1", false},
		"a backend without a port":       {func(in *Input) { in.Backends["web"][0].Port = 0 }, "neither a Service nor a port", false},
		"a backend without a name":       {func(in *Input) { in.Backends["web"][0].Name = "" }, "neither a Service nor a port", false},
		"a component somewhere else":     {func(in *Input) { in.Backends["web"][0].Namespace = "shop" }, "which is not the placement", false},
		"a Service of Kubernetes":        {func(in *Input) { in.Backends["web"][1].Namespace = "kube-system" }, `namespace "kube-system" is not one of a Baseline`, true},
		"a Service of the provider":      {func(in *Input) { in.Backends["web"][1].Namespace = "sandbar-system" }, "is not one of a Baseline", true},
		"a Service of another placement": {func(in *Input) { in.Backends["web"][1].Namespace = placement.ID{Origin: "x", UID: "y"}.Namespace() }, "is not one of a Baseline", true},
		"a Service of its own placement": {func(in *Input) { in.Backends["web"][1].Namespace = testPlacement }, "is not one of a Baseline", true},
		"a Service of no namespace":      {func(in *Input) { in.Backends["web"][1].Namespace = "" }, "is not one of a Baseline", true},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputOf("shop", read(t, specs["all fields"].spec))
			c.change(&in)
			_, err := Render(in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("err = %v, want one with %q", err, c.want)
			}
			var refused *RefusedError
			if errors.As(err, &refused) != c.refusal {
				t.Errorf("%v is a refusal: %t", err, !c.refusal)
			}
		})
	}
}

// sound fails the test unless what is rendered keeps the promises that hold for any route. It is written without the
// package's own way to matches.
func sound(t testing.TB, spec *sandbarv1alpha1.SandboxRouteSpec, r *Rendered) {
	t.Helper()
	want := fmt.Sprint(map[string]any{"name": "baggage", "type": "RegularExpression", "value": `^(?:.*,)?[ \t]*sandbox[ \t]*=[ \t]*sbx-abcd1234[ \t]*(?:[;,].*)?$`})
	if name := strings.ToLower(spec.SelectorHeaderName); name != "baggage" {
		want = fmt.Sprint(map[string]any{"name": name, "type": "Exact", "value": "sbx-abcd1234"})
	}
	rules := 0
	for i, route := range r.Routes {
		if route.GetNamespace() != testPlacement || route.GetLabels()[placement.LabelInstanceUID] != "our-uid" || route.GetLabels()[placement.LabelSandboxID] != ownID {
			t.Errorf("route %d is not of the placement: %v", i, route.Object["metadata"])
		}
		list, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
		if len(list) == 0 {
			t.Errorf("route %d has no rules", i)
		}
		for _, item := range list {
			matches, _, _ := unstructured.NestedSlice(item.(map[string]any), "matches")
			if declared := spec.Rules[rules].Matches; len(matches) != max(1, len(declared)) {
				t.Errorf("rule %d has %d matches, and %d in the spec", rules, len(matches), len(declared))
			}
			for _, match := range matches {
				headers, _, _ := unstructured.NestedSlice(match.(map[string]any), "headers")
				if len(headers) == 0 || fmt.Sprint(headers[0]) != want {
					t.Errorf("a match of rule %d has not the selector as its first header: %v", rules, headers)
				}
				names := map[string]bool{}
				for _, h := range headers {
					name := strings.ToLower(h.(map[string]any)["name"].(string))
					if names[name] {
						t.Errorf("a match of rule %d has the header %s twice", rules, name)
					}
					names[name] = true
				}
			}
			rules++
		}
		names, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
		if !slices.Equal(names, spec.Gateway.Hostnames) {
			t.Errorf("route %d is for %q", i, names)
		}
	}
	if rules != len(spec.Rules) {
		t.Errorf("%d rules are rendered, and %d are in the spec", rules, len(spec.Rules))
	}
}
