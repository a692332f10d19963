// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// judged renders a spec. It is refused, or keeps the promises of sound and is one that an API server takes.
func judged(t *testing.T, spec *sandbarv1alpha1.SandboxRouteSpec) {
	t.Helper()
	stack, err := stackGatewayAPI()
	if err != nil {
		t.Fatal(err)
	}
	in := inputOf("shop", spec)
	for _, backends := range in.Backends {
		for i := range backends { // what a controller finds is a Service with a port
			backends[i].Name, backends[i].Port = "web", 80
			if backends[i].Namespace != testPlacement {
				backends[i].Namespace = "shop"
			}
		}
	}
	r, err := Render(in)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		if len(refused.Message) > maxMessage {
			t.Errorf("the message has %d bytes", len(refused.Message))
		}
		return
	case err != nil && spec.Provider == sandbarv1alpha1.RouteByGateway:
		t.Fatalf("an error that is not a refusal: %v", err)
	case err != nil:
		return
	}
	sound(t, spec, r)
	stack.take(t, r)
}

// FuzzRender: of any spec, also one that no schema has seen, no match is rendered without the selector, and nothing that an
// API server refuses.
func FuzzRender(f *testing.F) {
	for _, row := range specs {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(row.spec), &spec); err != nil {
			f.Fatal(err)
		}
		if spec["selectorHeaderName"] == nil {
			spec["selectorHeaderName"] = "baggage"
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec := &sandbarv1alpha1.SandboxRouteSpec{}
		if json.Unmarshal(raw, spec) == nil {
			judged(t, spec)
		}
	})
}

// texts are of attacks on names, values and paths.
var texts = strings.Split("baggage|Baggage|BAGGAGE|x-sandbox|X-Sandbox|host|Cookie|x-user|X-USER|a b|`|x`) || PathPrefix(`/|.*|(|a{2,1}|/|/api|/api/|/a//b|/../|/%2F|/%2f|/%|/#|//|^/a$|\x00|\n|é|"+
	strings.Repeat("a", 253)+"|"+strings.Repeat("a", 1025)+"|"+strings.Repeat("/a", 600)+"|"+strings.Repeat("é", 4097)+"|sbx-abcd1234|sandbox=sbx-abcd1234|shop.example.com|*.example.com|*|Exact|PathPrefix|RegularExpression|GET|get|", "|")

// oneOfEach are the decisions for a spec with a path, a header and a parameter.
var oneOfEach = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0}

// with is oneOfEach with a text in a place.
func with(place, text int) []byte {
	seed := slices.Clone(oneOfEach)
	seed[place%len(seed)] = byte(attack + text%len(texts))
	return seed
}

// FuzzRenderOfFields is FuzzRender with the texts of attacks: each byte is a decision.
func FuzzRenderOfFields(f *testing.F) {
	for i := range texts {
		f.Add(with(i, i))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		judged(t, (&decisions{data}).spec())
	})
}

func TestAnyTextInAnyField(t *testing.T) {
	for place := range oneOfEach {
		for text := range texts {
			judged(t, (&decisions{with(place, text)}).spec())
		}
	}
}

func TestTheDecisionsOfAFuzzTestMakeARoute(t *testing.T) {
	spec := (&decisions{slices.Clone(oneOfEach)}).spec()
	m := spec.Rules[0].Matches
	if err := Check(spec); err != nil || len(m) != 1 || m[0].Path == nil || len(m[0].Headers) != 1 || len(m[0].QueryParams) != 1 {
		t.Errorf("%v: %+v", err, spec)
	}
}

// attack is the first byte that decides for a text of an attack.
const attack = 200

// decisions are made by bytes; when there are none left, by zeros.
type decisions struct{ data []byte }

func (d *decisions) upTo(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % (n + 1)
}

func (d *decisions) text(usual string) string {
	b := d.upTo(255)
	if b < attack {
		return usual
	}
	return texts[(b-attack)%len(texts)]
}

func (d *decisions) spec() *sandbarv1alpha1.SandboxRouteSpec {
	spec := &sandbarv1alpha1.SandboxRouteSpec{
		SandboxGroupRef: &sandbarv1alpha1.SandboxGroupReference{Name: "g"}, Provider: sandbarv1alpha1.RouteByGateway,
		SelectorHeaderName: d.text("baggage"), Gateway: &sandbarv1alpha1.SandboxRouteGateway{},
	}
	for range 1 + d.upTo(2) {
		spec.Gateway.Hostnames = append(spec.Gateway.Hostnames, d.text(string(rune('a'+d.upTo(5)))+".example.com"))
		spec.Gateway.ParentRefs = append(spec.Gateway.ParentRefs, sandbarv1alpha1.SandboxRouteParent{
			Namespace: d.text("infra"), Name: d.text("public"), SectionName: d.text([]string{"", "a", "b"}[d.upTo(2)]), Port: int32(d.upTo(2)),
		})
	}
	for i := range 1 + d.upTo(19) {
		rule := sandbarv1alpha1.SandboxRouteRule{Name: d.text("r" + string(rune('a'+i)))}
		for range d.upTo(16) {
			rule.Matches = append(rule.Matches, d.match())
		}
		for range 1 + d.upTo(2) {
			weight := int32(d.upTo(3) - 1)
			b := sandbarv1alpha1.SandboxRouteBackend{Weight: &weight}
			if d.upTo(1) == 0 {
				b.Component = &sandbarv1alpha1.SandboxRouteComponentBackend{Name: "web", Port: intstr.FromInt32(80)}
			} else {
				b.Service = &sandbarv1alpha1.SandboxRouteServiceBackend{SandboxRouteService: sandbarv1alpha1.SandboxRouteService{Name: "web"}, Port: intstr.FromString("http")}
			}
			rule.Backends = append(rule.Backends, b)
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return spec
}

func (d *decisions) match() sandbarv1alpha1.SandboxRouteMatch {
	m := sandbarv1alpha1.SandboxRouteMatch{Method: d.text("")}
	if d.upTo(1) == 1 {
		m.Path = &sandbarv1alpha1.SandboxRoutePathMatch{Type: sandbarv1alpha1.SandboxRoutePathType(d.text("")), Value: d.text("/a")}
	}
	for i := range d.upTo(16) {
		m.Headers = append(m.Headers, sandbarv1alpha1.SandboxRouteHeaderMatch{Type: sandbarv1alpha1.SandboxRouteValueType(d.text("")), Name: d.text("h" + string(rune('a'+i))), Value: d.text("v")})
	}
	for i := range d.upTo(17) {
		m.QueryParams = append(m.QueryParams, sandbarv1alpha1.SandboxRouteQueryParamMatch{Type: sandbarv1alpha1.SandboxRouteValueType(d.text("")), Name: d.text("q" + string(rune('a'+i))), Value: d.text("v")})
	}
	return m
}
