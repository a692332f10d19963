// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

var sandboxRoutes = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxroutes"}

// routed is a SandboxGroup with a component web, and a SandboxRoute that leads to it.
type routed struct {
	t            *testing.T
	shop         *shop
	group, route *instance
	// gateway is the namespace and the name of the Gateway.
	gateway types.NamespacedName
}

// newRouted makes a group of a shop whose Baseline admits a Gateway and hostnames.
func newRouted(t *testing.T, gateway types.NamespacedName, hostnames string, components ...string) *routed {
	t.Helper()
	tn := newTenant(t, "alice")
	r := &routed{t: t, shop: newShop(t, tn.path), gateway: gateway}
	if gateway.Namespace == "" {
		r.gateway.Namespace = r.shop.namespace
	}
	r.admits(hostnames)
	tn.waitServed(groups)
	tn.waitRight(groups)
	tn.waitServed(sandboxRoutes)
	tn.waitRight(sandboxRoutes)
	var list []string
	for _, name := range components {
		list = append(list, fmt.Sprintf(`{name: %[1]s, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: frontend, namespace: storefront},
			overrides: {replicas: 1, containers: [{name: app, env: [{name: GREETING, value: %[1]s}]}]}}`, name))
	}
	r.group = tn.create(groups, "SandboxGroup", "checkout", specOf(t, `{baselineRef: {name: `+r.shop.name+`}, components: [`+strings.Join(list, ", ")+`]}`))
	r.group.waitReady()
	return r
}

func specOf(t *testing.T, text string) map[string]any {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// admits has the Baseline admit the Gateway for hostnames.
func (r *routed) admits(hostnames string) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"routing":{"gateway":{"parentRefs":[{"namespace":%q,"name":%q}],"hostnames":[%s]}}}}`, r.gateway.Namespace, r.gateway.Name, hostnames)
	if _, err := r.shop.dyn.Resource(baselines).Patch(r.t.Context(), r.shop.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// leads creates a SandboxRoute with these rules, or replaces those that it has.
func (r *routed) leads(hostname, more, rules string) {
	r.t.Helper()
	spec := specOf(r.t, fmt.Sprintf(`{sandboxGroupRef: {name: checkout}, provider: gateway%s, gateway: {parentRefs: [{namespace: %s, name: %s}], hostnames: [%q]}, rules: [%s]}`,
		more, r.gateway.Namespace, r.gateway.Name, hostname, rules))
	if r.route == nil {
		r.route = r.group.tn.create(sandboxRoutes, "SandboxRoute", "checkout", spec)
		return
	}
	r.route.mustPatch(mustJSON(r.t, map[string]any{"spec": spec}))
}

const webRule = `{name: web, backends: [{component: {name: web, port: http}}]}`

func (r *routed) status() (status sandbarv1alpha1.SandboxRouteStatus, err error) {
	obj, err := r.route.get()
	if err != nil {
		return status, err
	}
	fields, _ := obj.Object["status"].(map[string]any)
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status)
}

// says waits until the route says so of its present generation, and returns its status.
func (r *routed) says(want metav1.ConditionStatus, reason, says string) (status sandbarv1alpha1.SandboxRouteStatus) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("Attached is %s: %s", want, reason), func() (err error) {
		obj, err := r.route.get()
		if err != nil {
			return err
		}
		if status, err = r.status(); err != nil {
			return err
		}
		if len(status.Conditions) != 1 || status.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("generation %d, and it says %+v", obj.GetGeneration(), status)
		}
		if c := status.Conditions[0]; c.Status != want || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	return status
}

// httpRoute is the one of the SandboxRoute.
func (r *routed) httpRoute() (*unstructured.Unstructured, error) {
	return r.shop.cluster.Resource(httpRoutes).Namespace(r.group.id.Namespace()).Get(r.t.Context(), "checkout", metav1.GetOptions{})
}

func (r *routed) leadsNowhere() {
	r.t.Helper()
	eventually(r.t, "the HTTPRoute is gone", func() error {
		if _, err := r.httpRoute(); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}

// taken has the test be the controller of the Gateway, which takes the HTTPRoute in each of its generations, until the SandboxRoute
// says that it is attached as it is now.
func (r *routed) taken() {
	r.t.Helper()
	eventually(r.t, "the HTTPRoute is taken, and the SandboxRoute attached", func() error {
		if err := r.take(); err != nil {
			return err
		}
		obj, err := r.route.get()
		if err != nil {
			return err
		}
		status, err := r.status()
		if err != nil || len(status.Conditions) != 1 || status.ObservedGeneration != obj.GetGeneration() || status.Conditions[0].Reason != sandbarv1alpha1.RouteAttached {
			return fmt.Errorf("generation %d, and it says %+v (%w)", obj.GetGeneration(), status, err)
		}
		return nil
	})
}

// take says of the HTTPRoute that it is taken as it is now, unless that has been said.
func (r *routed) take() error {
	route, err := r.httpRoute()
	if err != nil {
		return err
	}
	condition := func(kind string) string {
		return fmt.Sprintf(`{type: %[1]s, status: "True", reason: %[1]s, message: "", observedGeneration: %[2]d, lastTransitionTime: "2026-11-29T00:00:00Z"}`, kind, route.GetGeneration())
	}
	status := specOf(r.t, fmt.Sprintf(`{parents: [{controllerName: example.com/e2e, parentRef: {namespace: %s, name: %s}, conditions: [%s, %s]}]}`,
		r.gateway.Namespace, r.gateway.Name, condition("Accepted"), condition("ResolvedRefs")))
	if fmt.Sprint(route.Object["status"]) == fmt.Sprint(status) {
		return nil
	}
	route.Object["status"] = status
	_, err = r.shop.cluster.Resource(httpRoutes).Namespace(route.GetNamespace()).UpdateStatus(r.t.Context(), route, metav1.UpdateOptions{})
	return err
}

// TestARouteLeadsToCopies: a SandboxRoute becomes an HTTPRoute, each match of which asks for the group's ID, as long as the
// Baseline admits it; its status says what the Gateway says, and which routes of others take its requests; and it goes with what it
// leads to. The test is the Gateway's controller; TestRoutesThroughAGateway has a real one.
func TestARouteLeadsToCopies(t *testing.T) {
	calm(t)
	r := newRouted(t, types.NamespacedName{Name: "public"}, `"*.example.com"`, "web")
	r.leads("shop.example.com", "", webRule)
	r.says(metav1.ConditionFalse, "ResolveFailed", "has no Gateway "+r.gateway.String())
	r.shop.make(gateways, r.gateway.Namespace, `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: public}, spec: {gatewayClassName: e2e, listeners: [{name: http, port: 80, protocol: HTTP}]}}`)
	status := r.says(metav1.ConditionUnknown, "Pending", r.gateway.String())
	if id := groupStatus(t, r.group).SandboxID; status.SandboxID != id || status.AttachedResource == nil || status.AttachedResource.Namespace != r.group.id.Namespace() {
		t.Errorf("the ID of the group is %s: %+v", id, status)
	}
	r.taken()

	t.Run("each match asks for the ID", func(t *testing.T) { r.asksForTheID(t, status.SandboxID) })
	t.Run("somebody else's change is put right", func(t *testing.T) {
		patch := []byte(`[{"op":"remove","path":"/spec/rules/0/matches/0/headers"}]`)
		if _, err := r.shop.cluster.Resource(httpRoutes).Namespace(r.group.id.Namespace()).Patch(t.Context(), "checkout", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it asks for the ID again", func() error {
			route, err := r.httpRoute()
			if err == nil && !strings.Contains(fmt.Sprint(route.Object["spec"]), status.SandboxID) {
				err = fmt.Errorf("it is for %v", route.Object["spec"])
			}
			return err
		})
		r.taken()
	})
	t.Run("what another route takes is told", func(t *testing.T) { r.isShadowed(t) })
	t.Run("what the Baseline does not admit ends", func(t *testing.T) {
		r.admits(`"other.example.com"`)
		r.says(metav1.ConditionFalse, "NotAllowed", "it admits other.example.com")
		r.leadsNowhere()
		r.admits(`"*.example.com"`)
		r.says(metav1.ConditionUnknown, "Pending", "")
		r.taken()
	})
	t.Run("what is wrong is refused with its field", func(t *testing.T) {
		for says, patch := range map[string]string{
			"cannot carry the ID": `{"spec":{"selectorHeaderName":"Host"}}`,
			"does not change":     `{"spec":{"provider":"istio","gateway":null,"istio":{"gateways":["a/b"],"hosts":["c"]}}}`,
			"component":           `{"spec":{"rules":[{"name":"web","backends":[{}]}]}}`,
		} {
			_, err := r.group.tn.dyn.Resource(sandboxRoutes).Namespace("default").Patch(t.Context(), "checkout", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", patch, err)
			}
		}
		r.leads("shop.example.com", "", `{name: web, backends: [{component: {name: web, port: admin}}]}`)
		r.says(metav1.ConditionFalse, "ResolveFailed", "component web has no port admin; it has http (8080)")
		r.leads("shop.example.com", "", webRule)
		r.says(metav1.ConditionUnknown, "Pending", "")
	})
	t.Run("deleted it leads nowhere", func(t *testing.T) {
		r.route.delete()
		r.leadsNowhere()
		eventually(t, "the SandboxRoute is gone", func() error {
			if _, err := r.route.get(); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
		r.route = nil
	})
	t.Run("without its group it leads nowhere, and can go", func(t *testing.T) {
		r.leads("shop.example.com", "", webRule)
		r.says(metav1.ConditionUnknown, "Pending", "")
		r.group.delete()
		r.says(metav1.ConditionFalse, "ResolveFailed", "")
		waitGone(t, r.group.id)
		r.route.delete()
	})
}

func (r *routed) asksForTheID(t *testing.T, id string) {
	r.leads("shop.example.com", ", selectorHeaderName: X-Sandbox", `{name: api, matches: [{path: {value: /api}}, {method: GET}], backends: [{component: {name: web, port: 8080}}]}, `+webRule)
	r.says(metav1.ConditionUnknown, "Pending", "")
	route, err := r.httpRoute()
	if err != nil {
		t.Fatal(err)
	}
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	matches := 0
	for _, rule := range rules {
		for _, match := range rule.(map[string]any)["matches"].([]any) {
			matches++
			headers, _ := match.(map[string]any)["headers"].([]any)
			if len(headers) != 1 || headers[0].(map[string]any)["name"] != "x-sandbox" || headers[0].(map[string]any)["value"] != id {
				t.Errorf("a match has the headers %v", headers)
			}
		}
	}
	if len(rules) != 2 || matches != 3 {
		t.Errorf("%d rules with %d matches: %v", len(rules), matches, rules)
	}
	r.leads("shop.example.com", ", selectorHeaderName: baggage", webRule)
	r.taken()
}

// isShadowed has the environment route a path below.
func (r *routed) isShadowed(t *testing.T) {
	r.shop.make(httpRoutes, r.shop.namespace, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: api}, spec: {
		parentRefs: [{name: public}], hostnames: [shop.example.com], rules: [{matches: [{path: {type: PathPrefix, value: /api}}], backendRefs: [{name: backend, port: 80}]}]}}`)
	eventually(t, "it is told", func() error {
		status, err := r.status()
		if err != nil {
			return err
		}
		if len(status.Shadowed) != 1 || status.Shadowed[0].By != r.shop.namespace+"/api" || !strings.Contains(status.Shadowed[0].Message, "path /api") {
			return fmt.Errorf("%+v", status.Shadowed)
		}
		return nil
	})
	if err := r.shop.cluster.Resource(httpRoutes).Namespace(r.shop.namespace).Delete(context.WithoutCancel(t.Context()), "api", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told no more", func() error {
		if status, err := r.status(); err != nil || len(status.Shadowed) > 0 {
			return fmt.Errorf("%+v, %w", status.Shadowed, err)
		}
		return nil
	})
}
