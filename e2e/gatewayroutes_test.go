// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/route/conformance"
)

// routedHost is served by the environment itself, and for some requests by copies.
const routedHost = "shop." + gatewayDomain

// TestRoutesThroughAGateway: with a real Gateway API controller, the requests that carry a sandbox's ID get the copies, and all
// others the environment, by each of the headers that a tenant may send (3-T4), also where a route of the environment's is more
// specific (3-T6).
func TestRoutesThroughAGateway(t *testing.T) {
	long(t, "it builds Traefik")
	changes(t)
	g := startGateway(t)
	r := newRouted(t, types.NamespacedName{Namespace: "gateway", Name: "previews"}, fmt.Sprintf("%q", routedHost), "web", "blue")
	g.apply(t, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: %s}
spec:
  parentRefs: [{name: previews, namespace: gateway}]
  hostnames: [%s]
  rules: [{backendRefs: [{name: backend, port: 80}]}]
`, r.shop.namespace, routedHost))
	r.leads(routedHost, "", webRule)
	id := r.says(metav1.ConditionTrue, "RouteAttached", "are led").SandboxID
	s := &shopFront{t: t, gateway: g, routed: r, id: id}
	s.eventuallyGets("/", environment, nil)
	s.eventuallyGets("/", "web", s.own())

	t.Run("by baggage", s.byBaggage)
	t.Run("by a header of the tenant's", s.byOwnHeader)
	t.Run("a more specific route of the environment", s.isShadowed)
	t.Run("shared by weight", s.byWeight)
	t.Run("what the Baseline admits no more ends", func(t *testing.T) {
		r.admits(`"other.example.com"`)
		r.says(metav1.ConditionFalse, "NotAllowed", "")
		s.on(t).eventuallyGets("/", environment, s.own())
		r.admits(fmt.Sprintf("%q", routedHost))
		s.on(t).eventuallyGets("/", "web", s.own())
	})
	t.Run("what the Gateway refuses is told", func(t *testing.T) {
		g.admit(t, "Same")
		t.Cleanup(func() { g.admit(t, "All") })
		r.says(metav1.ConditionFalse, "AttachFailed", "NotAllowedByListeners")
		g.admit(t, "All")
		r.says(metav1.ConditionTrue, "RouteAttached", "")
	})
	t.Run("deleted it ends", func(t *testing.T) {
		r.route.delete()
		s.on(t).eventuallyGets("/", environment, s.own())
	})
}

// environment is what the environment's own service says.
const environment = "production-backend"

// shopFront is the address of an environment, behind a Gateway.
type shopFront struct {
	t       *testing.T
	gateway *gateway
	routed  *routed
	id      string
}

func (s *shopFront) on(t *testing.T) *shopFront {
	of := *s
	of.t = t
	return &of
}

// own is the header of a request for the sandbox.
func (s *shopFront) own() http.Header { return http.Header{"Baggage": {"sandbox=" + s.id}} }

// gets is who answers a request.
func (s *shopFront) gets(path string, header http.Header) (string, error) {
	code, body, err := s.gateway.request(s.t, "https://"+routedHost+path, header)
	if err != nil || code != http.StatusOK {
		return "", fmt.Errorf("%d: %s: %w", code, body, err)
	}
	var who string
	_, err = fmt.Sscan(body, &who)
	return who, err
}

func (s *shopFront) eventuallyGets(path, want string, header http.Header) {
	s.t.Helper()
	eventually(s.t, want+" answers "+path, func() error {
		got, err := s.gets(path, header)
		if err == nil && got != want {
			err = fmt.Errorf("%s answers", got)
		}
		return err
	})
}

// wants asks once.
func (s *shopFront) wants(what, path, want string, header http.Header) {
	s.t.Helper()
	if got, err := s.gets(path, header); err != nil || got != want {
		s.t.Errorf("%s: %s answers, not %s (%v)", what, got, want, err)
	}
}

func (s *shopFront) byBaggage(t *testing.T) {
	s = s.on(t)
	for _, c := range conformance.BaggageOf(s.id, "sbx-00000000") {
		want := environment
		if c.Routed {
			want = "web"
		}
		s.wants(c.Name, "/", want, http.Header{"Baggage": c.Lines})
	}
	s.wants("the name of the header in capitals", "/", "web", http.Header{"BAGGAGE": {"sandbox=" + s.id}})
}

func (s *shopFront) byOwnHeader(t *testing.T) {
	s = s.on(t)
	s.routed.leads(routedHost, ", selectorHeaderName: X-Sandbox", webRule)
	s.routed.says(metav1.ConditionTrue, "RouteAttached", "")
	s.eventuallyGets("/", "web", http.Header{"X-Sandbox": {s.id}})
	s.wants("a longer value", "/", environment, http.Header{"X-Sandbox": {s.id + "x"}})
	s.wants("a value within another", "/", environment, http.Header{"X-Sandbox": {"a " + s.id}})
	s.wants("baggage", "/", environment, s.own())
	s.routed.leads(routedHost, ", selectorHeaderName: baggage", webRule)
	s.eventuallyGets("/", "web", s.own())
}

func (s *shopFront) isShadowed(t *testing.T) {
	s = s.on(t)
	s.gateway.apply(t, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop-api, namespace: %s}
spec:
  parentRefs: [{name: previews, namespace: gateway}]
  hostnames: [%s]
  rules: [{matches: [{path: {type: PathPrefix, value: /api}}], backendRefs: [{name: backend, port: 80}]}]
`, s.routed.shop.namespace, routedHost))
	s.eventuallyGets("/api", environment, s.own())
	s.wants("beside it", "/", "web", s.own())
	eventually(t, "the status tells", func() error {
		status, err := s.routed.status()
		if err == nil && (len(status.Shadowed) != 1 || status.Shadowed[0].By != s.routed.shop.namespace+"/shop-api") {
			err = fmt.Errorf("%+v", status.Shadowed)
		}
		return err
	})
	s.routed.leads(routedHost, "", `{name: web, matches: [{path: {value: /}}, {path: {value: /api}}], backends: [{component: {name: web, port: http}}]}`)
	s.eventuallyGets("/api", "web", s.own())
	s.wants("everybody else", "/api", environment, nil)
	eventually(t, "the status tells no more", func() error {
		status, err := s.routed.status()
		if err == nil && len(status.Shadowed) > 0 {
			err = fmt.Errorf("%+v", status.Shadowed)
		}
		return err
	})
}

// byWeight: of n requests the number that the lesser one gets is within four standard deviations.
func (s *shopFront) byWeight(t *testing.T) {
	s = s.on(t)
	s.routed.leads(routedHost, "", `{name: web, backends: [{component: {name: web, port: http}, weight: 90}, {component: {name: blue, port: http}, weight: 10}]}`)
	s.eventuallyGets("/", "blue", s.own())
	const n, p = 500, 0.1
	blue := 0
	for range n {
		got, err := s.gets("/", s.own())
		if err != nil {
			t.Fatal(err)
		}
		if got == "blue" {
			blue++
		}
	}
	if off := math.Abs(float64(blue) - n*p); off > 4*math.Sqrt(n*p*(1-p)) {
		t.Errorf("%d of %d requests went to a weight of 10 in 100", blue, n)
	}
	s.routed.leads(routedHost, "", webRule)
	s.routed.says(metav1.ConditionTrue, "RouteAttached", "")
}
