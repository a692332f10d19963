// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// toldOfRoute is what the status of the route says.
type toldOfRoute struct {
	sandbarv1alpha1.SandboxRouteStatus

	// current: it speaks of the route's spec as it is now.
	current bool
}

func toldByRoute(route *unstructured.Unstructured) (t toldOfRoute, err error) {
	if route == nil {
		return t, nil
	}
	fields, _ := route.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &t.SandboxRouteStatus); err != nil {
		return t, fmt.Errorf("reading the status of the route: %w", err)
	}
	t.current = route.GetDeletionTimestamp() == nil && t.ObservedGeneration == route.GetGeneration()
	return t, nil
}

// attached reports whether requests are led as the spec says, in the words of the route.
func attached(l Look, r toldOfRoute) Verdict {
	switch {
	case !l.Route.Wanted && l.Route.Part == nil && !l.Route.Unseen:
		return Verdict{OK: true, Reason: reasonNoRouting, Message: "no requests are routed to the workloads: they are reached by their Services"}
	case l.Deleting != "":
		return Verdict{Reason: outcome.ReasonDeleting, Message: l.Deleting}
	case !l.Route.Wanted:
		return Verdict{Reason: reasonPending, Message: fmt.Sprintf("waiting for %s %s to be removed", l.Route.Kind, l.Object.GetName())}
	case l.Route.Unseen:
		return toldBefore(l)
	case l.Route.Part == nil && !l.Route.OK:
		return l.Route.Verdict
	}
	c := meta.FindStatusCondition(r.Conditions, sandbarv1alpha1.RouteAttachedCondition)
	if !r.current || c == nil {
		return pending(l)
	}
	return Verdict{OK: c.Status == metav1.ConditionTrue, Unknown: c.Status == metav1.ConditionUnknown, Reason: c.Reason, Message: inWordsOfRouting(l, c.Message)}
}

func pending(l Look) Verdict {
	return Verdict{Unknown: true, Reason: sandbarv1alpha1.RoutePending, Message: fmt.Sprintf("the provider has not looked at the %s since it was made or changed", l.Route.Kind)}
}

// toldBefore is what was told last of a route of which nothing is known now.
func toldBefore(l Look) Verdict {
	c := meta.FindStatusCondition(l.Old.Conditions, sandbarv1alpha1.SandboxAttached)
	if c == nil || c.Reason == reasonNoRouting {
		return pending(l)
	}
	return Verdict{OK: c.Status == metav1.ConditionTrue, Unknown: c.Status == metav1.ConditionUnknown, Reason: c.Reason, Message: c.Message}
}

// inWordsOfRouting is a message about a route with the names of the instance's own fields. A rule has one backend there.
func inWordsOfRouting(l Look, message string) string {
	own := "spec." + l.Routing
	return strings.NewReplacer(
		"spec.rules[", own+".interceptions[",
		".backends[0].component.name", ".routeTo.workload",
		".backends[0].component.port", ".routeTo.port",
		".targetServiceRef", ".targetService",
		"spec.selectorHeaderName", own+".key.headerName",
		"spec.provider", own+".provider",
		"spec.gateway", own+".gateway",
		"spec.istio", own+".istio",
	).Replace(message)
}

// endpointsOf are those of a route, each with a name that no other has.
func endpointsOf(r toldOfRoute) []sandbarv1alpha1.SandboxEndpoint {
	taken := map[string]bool{}
	for _, e := range r.Endpoints {
		taken[e.Rule] = true
	}
	used := map[string]int{}
	all := make([]sandbarv1alpha1.SandboxEndpoint, 0, len(r.Endpoints))
	for _, e := range r.Endpoints {
		name := e.Rule
		for used[e.Rule]++; used[e.Rule] > 1; used[e.Rule]++ {
			if name = fmt.Sprintf("%s-%d", e.Rule, used[e.Rule]); !taken[name] {
				break
			}
		}
		taken[name] = true
		all = append(all, sandbarv1alpha1.SandboxEndpoint{Name: name, URL: e.URL, Hostname: e.Hostname, Path: e.Path, Interception: e.Rule})
	}
	return all
}
