// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const restoreCommand = "sandbar-provider restore-services --runtime-kubeconfig FILE"

// checkInterceptions looks at the Services that have proxies in front of them, or are to have some. Sandboxes work without them, so
// these are warnings; a Service that leads nowhere is a failure.
func (e *examination) checkInterceptions(ctx context.Context) []Finding {
	routes, granted, err := e.routesOfProxies(ctx)
	if err != nil {
		return one(failure("", "%v", err))
	}
	services := &corev1.ServiceList{}
	if err := e.runtime.List(ctx, services); err != nil {
		return one(failure("", "the Services cannot be listed: %v", err))
	}
	findings := e.ungranted(ctx, granted)
	for i := range services.Items {
		s := &services.Items[i]
		name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		findings = append(findings, leadsNowhere(s, routes[name])...)
	}
	for _, name := range slices.SortedFunc(maps.Keys(routes), compareNames) {
		if f := interceptionFinding(name, routes[name]); f != nil {
			findings = append(findings, *f)
		}
	}
	if len(findings) == 0 {
		return one(passed("%d Services are asked proxies for", len(routes)))
	}
	return findings
}

func compareNames(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }

// routesOfProxies is what routes ask of proxies, by Service, and the namespaces in which the controllers may have these.
func (e *examination) routesOfProxies(ctx context.Context) (map[types.NamespacedName]*intercept.Routes, map[string]bool, error) {
	list := &corev1.ConfigMapList{}
	if err := e.runtime.List(ctx, list, client.MatchingLabels{placement.LabelManagedBy: placement.ManagedBy}); err != nil {
		return nil, nil, fmt.Errorf("what routes ask of proxies cannot be read: %w", err)
	}
	all, granted := map[types.NamespacedName]*intercept.Routes{}, map[string]bool{}
	for i := range list.Items {
		if list.Items[i].Name != intercept.RoutesConfigMap {
			continue
		}
		granted[list.Items[i].Namespace] = true
		for service, routes := range intercept.ReadRoutes(list.Items[i].Data) {
			all[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: service}] = routes
		}
	}
	return all, granted, nil
}

// ungranted are the Baselines that admit proxies where the controllers may have none.
func (e *examination) ungranted(ctx context.Context, granted map[string]bool) (findings []Finding) {
	list := &sandbarv1alpha1.BaselineList{}
	if err := e.kcp.List(ctx, list); err != nil {
		return one(failure("sandbar-provider init", "listing the Baselines: %v", err))
	}
	for i := range list.Items {
		b := &list.Items[i]
		if !b.Spec.Routing.Proxy.Enabled {
			continue
		}
		if e.provider.Spec.Images[intercept.Image] == "" {
			findings = append(findings, warning("set spec.images."+intercept.Image+" of the InfrastructureProvider, and run sandbar-provider init again",
				"the Baseline %s admits proxies, and there is no image for them", b.Name))
		}
		for _, n := range b.Spec.Namespaces {
			if !granted[n.Name] {
				findings = append(findings, warning(baseline.GrantCommand(b.Name), "the Baseline %s admits proxies in namespace %s, where the controllers have no right to them", b.Name, n.Name))
			}
		}
	}
	return findings
}

// leadsNowhere is a finding about a Service that has something of an interception and is not intercepted for a route.
func leadsNowhere(s *corev1.Service, routes *intercept.Routes) []Finding {
	switch {
	case !intercept.HasTraces(s):
		return nil
	case routes == nil || len(routes.Intents) == 0: // a state outlives the routes for a while
		return one(failure(restoreCommand, "Service %s/%s has the selector or the annotation of proxies that nobody asks for", s.Namespace, s.Name))
	case !intercept.IsIntercepted(s) && routes.State.Reason != sandbarv1alpha1.RouteOwnershipConflict:
		return one(failure("see whether sandbar-provider controllers runs; "+restoreCommand, "Service %s/%s has a selector that is neither its owner's nor that of its proxies alone", s.Namespace, s.Name))
	}
	return nil
}

// interceptionFinding says why a Service has no proxies; nil if it has.
func interceptionFinding(name types.NamespacedName, routes *intercept.Routes) *Finding {
	state := routes.State
	var f Finding
	switch {
	case len(routes.Intents) == 0, state.Reason == sandbarv1alpha1.RouteAttached && len(state.Refused) == 0 && state.Detail == "":
		return nil
	case state.Reason == "":
		f = warning("see whether sandbar-provider controllers runs", "%d SandboxRoutes ask proxies for Service %s, and nothing has come of it", len(routes.Intents), name)
	case state.Reason == sandbarv1alpha1.RouteAttached && len(state.Refused) == 0:
		f = warning("", "the proxies of Service %s lead requests, but cannot be changed", name)
	case state.Reason == sandbarv1alpha1.RouteAttached:
		f = warning("", "the proxies of Service %s have no room for the rules of %d SandboxRoutes", name, len(state.Refused))
	case state.Reason == sandbarv1alpha1.RouteProxyNotReady:
		f = warning("kubectl -n "+name.Namespace+" describe deployment "+intercept.ProxyName(name.Name), "%s: %s: %s", name, state.Reason, state.Message)
	default:
		f = warning("", "%s: %s: %s", name, state.Reason, state.Message)
	}
	if state.Detail != "" {
		f.Detail += ": " + state.Detail
	}
	return &f
}
