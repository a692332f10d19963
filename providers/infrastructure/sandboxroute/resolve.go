// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

// refuse says why a SandboxRoute leads nowhere.
func refuse(reason, format string, args ...any) error {
	return &route.RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// refusedOf is why a SandboxRoute leads nowhere, or an error that a retry mends.
func refusedOf(err error) (*route.RefusedError, error) {
	var refused *route.RefusedError
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

// wanted are the HTTPRoutes that a SandboxRoute is to have, and notes what it has found on the way. The error is a
// *route.RefusedError, or one that a retry mends.
func (r *reconciler) wanted(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute, found *finding) ([]*unstructured.Unstructured, error) {
	spec := &obj.Spec
	place, err := r.placed(ctx, key, spec, found)
	if err != nil {
		return nil, err
	}
	if err := route.Admit(spec, place.Baseline.Name, &place.Baseline.Spec.Routing); err != nil {
		return nil, err
	}
	if found.gateways, err = r.findGateways(ctx, spec); err != nil {
		return nil, err
	}
	meta := place.ObjectMeta(obj.Name)
	backends, err := r.backends(ctx, spec, place, meta.Namespace)
	if err != nil {
		return nil, err
	}
	own(&meta, key, obj.UID)
	rendered, err := route.Render(route.Input{
		Name: obj.Name, Spec: spec, Namespace: meta.Namespace, SandboxID: place.SandboxID, Backends: backends, Labels: meta.Labels, Annotations: meta.Annotations,
	})
	if err != nil {
		return nil, err
	}
	return rendered.Routes, nil
}

// placed checks a spec as far as no Baseline is needed for it, and finds and notes where the copies are.
func (r *reconciler) placed(ctx context.Context, key export.Key, spec *sandbarv1alpha1.SandboxRouteSpec, found *finding) (*instance.GroupPlace, error) {
	if err := r.supported(spec); err != nil {
		return nil, err
	}
	if err := route.Check(spec); err != nil {
		return nil, err
	}
	place, err := r.place(ctx, key, spec)
	if err == nil {
		found.place = place
	}
	return place, err
}

// supported refuses what this provider cannot do.
func (r *reconciler) supported(spec *sandbarv1alpha1.SandboxRouteSpec) error {
	if spec.Provider == sandbarv1alpha1.RouteByIstio {
		return refuse(sandbarv1alpha1.RouteProviderUnavailable, "spec.provider: %s is not offered here; gateway and proxy are", spec.Provider)
	}
	for i, rule := range spec.Rules {
		for j, b := range rule.Backends {
			if b.Service != nil {
				return refuse(sandbarv1alpha1.RouteProviderUnavailable, "spec.rules[%d].backends[%d].service: Services of the Baseline are not offered as backends; lead to components, "+
					"and leave to the environment's own routes what is not for them", i, j)
			}
		}
	}
	if spec.Provider != sandbarv1alpha1.RouteByGateway {
		return nil
	}
	if _, known := r.others(); known == follow.Unserved {
		return refuse(sandbarv1alpha1.RouteProviderUnavailable, "the runtime cluster has no Gateway API (gateway.networking.k8s.io/v1): ask the operator")
	}
	return nil
}

// place is where the copies are that a SandboxRoute leads to.
func (r *reconciler) place(ctx context.Context, key export.Key, spec *sandbarv1alpha1.SandboxRouteSpec) (*instance.GroupPlace, error) {
	if spec.SandboxGroupRef == nil {
		return nil, refuse(sandbarv1alpha1.RouteInvalidSpec, "spec.sandboxGroupRef: name the SandboxGroup whose ID requests carry, or the Sandbox with workloads")
	}
	name := spec.SandboxGroupRef.Name
	place, err := r.groups.Place(ctx, groupOf(key, name))
	switch {
	case errors.Is(err, instance.ErrNoKind):
		return nil, refuse(sandbarv1alpha1.RouteProviderUnavailable, "the provider offers no SandboxGroups: ask the operator")
	case export.IsGone(err):
		return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "spec.sandboxGroupRef.name: there is no SandboxGroup %s in namespace %s", name, key.Namespace)
	case errors.Is(err, instance.ErrNotPlaced):
		return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "spec.sandboxGroupRef.name: SandboxGroup %s has no copies yet; its status says why", name)
	case err != nil:
		return nil, fmt.Errorf("finding the copies of SandboxGroup %s: %w", name, err)
	case place.Group.GetDeletionTimestamp() != nil:
		return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "spec.sandboxGroupRef.name: SandboxGroup %s is being deleted", name)
	case place.Baseline == nil:
		return nil, refuse(sandbarv1alpha1.RouteNotAllowed, "spec.sandboxGroupRef.name: the Baseline of SandboxGroup %s is not for this workspace any more: ask the operator", name)
	}
	return place, nil
}

// findGateways looks for the Gateways that a spec names: of a route to one that is not there, nobody would ever say anything.
func (r *reconciler) findGateways(ctx context.Context, spec *sandbarv1alpha1.SandboxRouteSpec) (all []*gateway, err error) {
	for i, p := range spec.Gateway.ParentRefs {
		one, err := r.runtime.gateway(ctx, p.Namespace, p.Name)
		if err != nil {
			return nil, err
		}
		if one == nil {
			return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "spec.gateway.parentRefs[%d]: the runtime cluster has no Gateway %s/%s, though the Baseline admits it: ask the operator", i, p.Namespace, p.Name)
		}
		all = append(all, one)
	}
	return all, nil
}

// backends finds the Services of the components that each rule leads to.
func (r *reconciler) backends(ctx context.Context, spec *sandbarv1alpha1.SandboxRouteSpec, place *instance.GroupPlace, namespace string) (map[string][]route.Backend, error) {
	services := map[string]*corev1.Service{}
	all := map[string][]route.Backend{}
	for i, rule := range spec.Rules {
		for j, b := range rule.Backends {
			field := fmt.Sprintf("spec.rules[%d].backends[%d].component", i, j)
			name := clone.ServiceName(place.Group.GetName(), b.Component.Name)
			if !slices.Contains(place.Components, b.Component.Name) {
				return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "%s.name: SandboxGroup %s has no component %s; it has %s", field, place.Group.GetName(), b.Component.Name, strings.Join(place.Components, ", "))
			}
			if services[name] == nil {
				service, err := r.runtime.service(ctx, namespace, name)
				if err != nil {
					return nil, err
				}
				if service == nil {
					return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "%s.name: component %s has no Service yet; the status of SandboxGroup %s says why", field, b.Component.Name, place.Group.GetName())
				}
				services[name] = service
			}
			port, ok := portOf(services[name], b.Component.Port)
			if !ok {
				return nil, refuse(sandbarv1alpha1.RouteResolveFailed, "%s.port: component %s has no port %s; it has %s", field, b.Component.Name, b.Component.Port.String(), portsOf(services[name]))
			}
			all[rule.Name] = append(all[rule.Name], route.Backend{Namespace: namespace, Name: name, Port: port})
		}
	}
	return all, nil
}

// portOf is the number of a port of a Service.
func portOf(service *corev1.Service, port intstr.IntOrString) (int32, bool) {
	for _, p := range service.Spec.Ports {
		if port.Type == intstr.Int && p.Port == port.IntVal || port.Type == intstr.String && p.Name == port.StrVal {
			return p.Port, true
		}
	}
	return 0, false
}

// portsOf lists the ports of a Service, for people.
func portsOf(service *corev1.Service) string {
	var names []string
	for _, p := range service.Spec.Ports {
		name := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			name = p.Name + " (" + name + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
