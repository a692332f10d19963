// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// CloneRoute says in words of a command line which requests are led to the copies.
type CloneRoute struct {
	// Provider is gateway or proxy; empty for no routing.
	Provider string
	// Gateways are NAMESPACE/NAME, or NAMESPACE/NAME/LISTENER; by default the only one of the Baseline. They are for gateway.
	Gateways []string
	// Hosts are the hostnames, for gateway.
	Hosts []string
	// Intercepts are SERVICE[/PATH]=WORKLOAD:PORT. SERVICE is one of the Baseline, PATH the beginning of paths, by default all;
	// WORKLOAD is the name of a copy, and PORT the number or the name of a port of its Service.
	Intercepts []string
}

// clonedRoute is what CloneRoute says.
type clonedRoute struct {
	provider      sandbarv1alpha1.SandboxRouteProvider
	gateways      []sandbarv1alpha1.SandboxRouteParent
	hosts         []string
	interceptions []sandbarv1alpha1.SandboxInterception
}

func (t CloneRoute) parse(c *Clone) (*clonedRoute, error) {
	switch {
	case t.Provider == "" && len(t.Gateways)+len(t.Hosts)+len(t.Intercepts) > 0:
		return nil, errors.New("say with --route gateway, or --route proxy, that requests are to be led to the copies")
	case t.Provider == "":
		return nil, nil
	}
	if err := t.checkProvider(); err != nil {
		return nil, err
	}
	if len(t.Intercepts) == 0 {
		return nil, fmt.Errorf("--route %s needs --intercept SERVICE[/PATH]=WORKLOAD:PORT, such as %s=%[2]s:80", t.Provider, c.workloads[0].name)
	}
	route := &clonedRoute{provider: sandbarv1alpha1.SandboxRouteProvider(t.Provider), hosts: t.Hosts}
	for _, text := range t.Gateways {
		parts := strings.Split(text, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("gateway %q: write NAMESPACE/NAME, or NAMESPACE/NAME/LISTENER", text)
		}
		parent := sandbarv1alpha1.SandboxRouteParent{Namespace: parts[0], Name: parts[1]}
		if len(parts) == 3 {
			parent.SectionName = parts[2]
		}
		route.gateways = append(route.gateways, parent)
	}
	for _, text := range t.Intercepts {
		if err := route.addInterception(c, text); err != nil {
			return nil, err
		}
	}
	return route, nil
}

// checkProvider refuses what is another provider's.
func (t CloneRoute) checkProvider() error {
	switch sandbarv1alpha1.SandboxRouteProvider(t.Provider) {
	case sandbarv1alpha1.RouteByGateway:
		if len(t.Hosts) == 0 {
			return errors.New("--route gateway needs --host: a hostname whose requests are led to the copies")
		}
	case sandbarv1alpha1.RouteByProxy:
		if len(t.Gateways)+len(t.Hosts) > 0 {
			return errors.New("--route proxy has neither --gateway nor --host: it leads the requests to the Service itself, however they come")
		}
	default:
		return fmt.Errorf("--route %q: write gateway or proxy; another provider is written into what -o yaml prints", t.Provider)
	}
	return nil
}

func (r *clonedRoute) addInterception(c *Clone, text string) error {
	from, to, ok := cutLast(text, "=") // a path may have one, too
	service, path, hasPath := strings.Cut(from, "/")
	workload, port, hasPort := strings.Cut(to, ":")
	switch {
	case !ok || service == "" || workload == "" || !hasPort || port == "":
		return fmt.Errorf("intercept %q: write SERVICE=WORKLOAD:PORT, or SERVICE/PATH=WORKLOAD:PORT", text)
	case !slices.ContainsFunc(c.workloads, func(w clonedWorkload) bool { return w.name == workload }):
		return fmt.Errorf("intercept %q: there is no workload %s; there is %s", text, workload, c.names())
	}
	one := sandbarv1alpha1.SandboxInterception{
		Name: r.freeName(service), TargetService: &sandbarv1alpha1.SandboxRouteService{Name: service},
		RouteTo: sandbarv1alpha1.SandboxRouteTarget{Workload: workload, Port: intstr.Parse(port)},
	}
	if hasPath {
		one.Matches = []sandbarv1alpha1.SandboxRouteMatch{{Path: &sandbarv1alpha1.SandboxRoutePathMatch{Type: sandbarv1alpha1.RoutePathPrefix, Value: "/" + path}}}
	}
	r.interceptions = append(r.interceptions, one)
	return nil
}

// freeName is the name of a Service, with a number behind it if an interception has it already.
func (r *clonedRoute) freeName(service string) string {
	name := service
	for n := 2; slices.ContainsFunc(r.interceptions, func(i sandbarv1alpha1.SandboxInterception) bool { return i.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", service, n)
	}
	return name
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// in is the routing of a Sandbox with copies of a Baseline, as its catalogue shows it.
func (r *clonedRoute) in(b client.Baseline) (*sandbarv1alpha1.SandboxRouting, error) {
	routing := &sandbarv1alpha1.SandboxRouting{Provider: r.provider, Interceptions: slices.Clone(r.interceptions)}
	if r.provider == sandbarv1alpha1.RouteByGateway {
		routing.Gateway = &sandbarv1alpha1.SandboxRouteGateway{ParentRefs: r.gateways, Hostnames: r.hosts}
		if len(r.gateways) == 0 {
			gateway, err := onlyGateway(b)
			if err != nil {
				return nil, err
			}
			routing.Gateway.ParentRefs = []sandbarv1alpha1.SandboxRouteParent{gateway}
		}
	}
	for i := range routing.Interceptions {
		service, err := serviceIn(b, routing.Interceptions[i].TargetService.Name)
		if err != nil {
			return nil, err
		}
		routing.Interceptions[i].TargetService = service
	}
	return routing, nil
}

// onlyGateway is the Gateway of a Baseline that has one.
func onlyGateway(b client.Baseline) (gateway sandbarv1alpha1.SandboxRouteParent, err error) {
	if b.Routing == nil || len(b.Routing.Gateways) == 0 {
		return gateway, fmt.Errorf("the Baseline %s admits no Gateway: ask the operator", b.Name)
	}
	if len(b.Routing.Gateways) > 1 {
		var names []string
		for _, g := range b.Routing.Gateways {
			names = append(names, g.String())
		}
		return gateway, fmt.Errorf("the Baseline %s admits several Gateways: say with --gateway which one: %s", b.Name, strings.Join(names, ", "))
	}
	g := b.Routing.Gateways[0]
	return sandbarv1alpha1.SandboxRouteParent{Namespace: g.Namespace, Name: g.Name, SectionName: g.SectionName}, nil
}

// serviceIn finds a Service of a Baseline. Where several have the name it is that of the Sandbox's own namespace, and so is one
// that the catalogue may have left out.
func serviceIn(b client.Baseline, name string) (*sandbarv1alpha1.SandboxRouteService, error) {
	var in, all []string
	for _, s := range b.Services {
		all = append(all, s.Name)
		if s.Name == name {
			in = append(in, s.Namespace)
		}
	}
	service := &sandbarv1alpha1.SandboxRouteService{Name: name}
	switch {
	case len(in) == 1:
		service.Namespace = in[0]
	case len(in) == 0 && b.ServicesFound <= len(b.Services):
		slices.Sort(all)
		return nil, fmt.Errorf("the Baseline %s has no Service %s; it has %s", b.Name, name, strings.Join(slices.Compact(all), ", "))
	}
	return service, nil
}
