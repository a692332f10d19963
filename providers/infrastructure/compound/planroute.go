// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Fields of a SandboxRoute's spec, and those of them that the routing of an instance has under the same name.
const (
	fieldGroup    = "sandboxGroupRef"
	fieldProvider = "provider"
	fieldHeader   = "selectorHeaderName"
	fieldGateway  = "gateway"
	fieldIstio    = "istio"
	fieldRules    = "rules"
)

// PlanRoute is the plan for the part that leads requests to the copies. It stays while the instance is suspended.
func PlanRoute(obj *unstructured.Unstructured, words *scope.CompoundWords) Plan {
	plan := Plan{
		Kind:   words.Route.GVK.Kind,
		fields: []string{fieldGroup, fieldProvider, fieldHeader, fieldGateway, fieldIstio, fieldRules}, fixed: fieldProvider,
	}
	routing := words.RoutingOf(obj)
	if routing == nil {
		return plan
	}
	plan.Refused = refusedIn(obj, words)
	plan.Part = newPart(obj, words.Route)
	plan.Part.Object["spec"] = routeOf(obj.GetName(), routing)
	return plan
}

// routeOf is the spec of the route for a routing. It has all fields that the API server would fill in: a part that has more than its
// plan would be corrected for ever.
func routeOf(group string, routing map[string]any) map[string]any {
	spec := map[string]any{fieldGroup: map[string]any{"name": group}, fieldHeader: headerOf(routing)}
	for _, name := range []string{fieldProvider, fieldGateway, fieldIstio} {
		if value := routing[name]; value != nil {
			spec[name] = withoutNulls(value)
		}
	}
	interceptions, _, _ := unstructured.NestedSlice(routing, "interceptions")
	rules := make([]any, 0, len(interceptions))
	for _, one := range interceptions {
		interception, _ := one.(map[string]any)
		rules = append(rules, ruleOf(interception, routing[fieldProvider] == string(sandbarv1alpha1.RouteByProxy)))
	}
	spec[fieldRules] = rules
	return spec
}

// ruleOf is the rule for an interception. A target Service is for a proxy: a route by another provider refuses it.
func ruleOf(interception map[string]any, byProxy bool) map[string]any {
	to, _ := interception["routeTo"].(map[string]any)
	rule := map[string]any{"name": interception["name"], "backends": []any{
		map[string]any{"component": map[string]any{"name": to["workload"], "port": to["port"]}, "weight": int64(1)},
	}}
	if matches := interception["matches"]; matches != nil {
		rule["matches"] = withoutNulls(matches)
	}
	if target := interception["targetService"]; target != nil && byProxy {
		rule["targetServiceRef"] = withoutNulls(target)
	}
	return rule
}

// headerOf is the name of the header by which requests are led.
func headerOf(routing map[string]any) string {
	name, _, _ := unstructured.NestedString(routing, "key", "headerName")
	return cmp.Or(name, sandbarv1alpha1.DefaultRoutingHeader)
}
