// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// finding is what a look at a SandboxRoute has found.
type finding struct {
	// refused is why nothing is led; nil if something is.
	refused *route.RefusedError
	// place is where the copies are; nil if they were not found.
	place *instance.GroupPlace
	// gateways are those that the spec names, in its order.
	gateways []*gateway
	// applied are the HTTPRoutes as they are now.
	applied []*unstructured.Unstructured
	// proxied are the Services in front of which proxies are asked for.
	proxied []proxied
	// shadows are the rules of which others take requests; incomplete: there may be more.
	shadows    []route.Shadow
	incomplete bool
}

// statusFor is the status that says what was found.
func statusFor(obj *sandbarv1alpha1.SandboxRoute, found *finding) *sandbarv1alpha1.SandboxRouteStatus {
	status := &sandbarv1alpha1.SandboxRouteStatus{
		ObservedGeneration: obj.Generation, Provider: obj.Spec.Provider, Conditions: append([]metav1.Condition(nil), obj.Status.Conditions...),
	}
	if found.place != nil {
		status.SandboxID = found.place.SandboxID
	}
	if len(found.applied) > 0 {
		first := found.applied[0]
		status.AttachedResource = &sandbarv1alpha1.SandboxRouteResource{
			APIVersion: first.GetAPIVersion(), Kind: first.GetKind(), Namespace: first.GetNamespace(), Name: first.GetName(),
		}
		status.Hostnames = obj.Spec.Gateway.Hostnames
		status.Endpoints = endpointsOf(&obj.Spec, found.gateways)
		status.Shadowed = shadowedOf(found.shadows)
	}
	if len(found.proxied) > 0 {
		first := found.proxied[0]
		status.AttachedResource = &sandbarv1alpha1.SandboxRouteResource{APIVersion: "v1", Kind: "Service", Namespace: first.alias, Name: first.service.Name}
	}
	attached := verdict(obj, found)
	attached.Type, attached.ObservedGeneration = sandbarv1alpha1.RouteAttachedCondition, obj.Generation
	attached.Message = outcome.Shortened(attached.Message, outcome.MaxMessage)
	meta.SetStatusCondition(&status.Conditions, attached)
	return status
}

// endpointsOf are the addresses at which requests of the rules begin, the first of them if they are many.
func endpointsOf(spec *sandbarv1alpha1.SandboxRouteSpec, gateways []*gateway) (told []sandbarv1alpha1.SandboxRouteEndpoint) {
	var listeners []route.Listener
	for i := range spec.Gateway.ParentRefs {
		listeners = append(listeners, route.ListenersOf(gateways[i].listeners, &spec.Gateway.ParentRefs[i])...)
	}
	all := route.Endpoints(spec.Gateway.Hostnames, spec.Rules, listeners)
	for _, e := range all[:min(len(all), sandbarv1alpha1.MaxSandboxRouteEndpoints)] {
		told = append(told, sandbarv1alpha1.SandboxRouteEndpoint{Rule: e.Rule, URL: e.URL, Hostname: e.Hostname, Path: e.Path})
	}
	return told
}

func shadowedOf(shadows []route.Shadow) (told []sandbarv1alpha1.SandboxRouteShadow) {
	for _, s := range shadows[:min(len(shadows), sandbarv1alpha1.MaxSandboxRouteShadowed)] {
		told = append(told, sandbarv1alpha1.SandboxRouteShadow{Rule: s.Rule, By: s.By, Message: s.Message})
	}
	return told
}

// attachedOf is the condition Attached; a zero one if there is none.
func attachedOf(status *sandbarv1alpha1.SandboxRouteStatus) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.RouteAttachedCondition); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// verdict says whether requests are led as the spec says.
func verdict(obj *sandbarv1alpha1.SandboxRoute, found *finding) metav1.Condition {
	if found.refused != nil {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: found.refused.Reason, Message: found.refused.Message}
	}
	if obj.Spec.Provider == sandbarv1alpha1.RouteByProxy {
		return verdictOfProxies(found.proxied)
	}
	var failed, pending []string
	for _, applied := range found.applied {
		for i := range obj.Spec.Gateway.ParentRefs {
			p := &obj.Spec.Gateway.ParentRefs[i]
			switch said := saidOf(applied, p); {
			case said.failed != "":
				failed = append(failed, nameOfParent(p)+": "+said.failed)
			case !said.accepted:
				pending = append(pending, nameOfParent(p))
			}
		}
	}
	switch {
	case len(failed) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: sandbarv1alpha1.RouteAttachFailed, Message: "the Gateway does not take the route: " + strings.Join(failed, "; ")}
	case len(pending) > 0:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: sandbarv1alpha1.RoutePending,
			Message: "the controller of Gateway " + strings.Join(pending, ", ") + " has not said yet whether it takes the route",
		}
	case route.AllShadowed(&obj.Spec, found.shadows):
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: sandbarv1alpha1.RouteShadowed, Message: "other routes take the requests of all rules: " + found.shadows[0].Message}
	case len(found.shadows) > 0:
		return metav1.Condition{
			Status: metav1.ConditionTrue, Reason: sandbarv1alpha1.RouteAttached,
			Message: fmt.Sprintf("requests are led as the rules say, but for those that other routes take (%d in status.shadowed): %s", len(found.shadows), found.shadows[0].Message),
		}
	}
	message := "requests with the ID are led as the rules say"
	if found.incomplete {
		message += "; " + route.ErrIncomplete.Error()
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: sandbarv1alpha1.RouteAttached, Message: message}
}

func nameOfParent(p *sandbarv1alpha1.SandboxRouteParent) string {
	name := p.Namespace + "/" + p.Name
	if p.SectionName != "" {
		name += " (listener " + p.SectionName + ")"
	}
	return name
}

// said is what the controllers of a Gateway say of an HTTPRoute.
type said struct {
	// accepted is set if one of them takes it, as it is now.
	accepted bool
	// failed is the reason and the message of one that does not.
	failed string
}

// The conditions of an HTTPRoute for one parent (Gateway API).
const (
	conditionAccepted     = "Accepted"
	conditionResolvedRefs = "ResolvedRefs"
)

// saidOf reads what is said of an HTTPRoute for one of its parents. What was said of a former generation counts for nothing.
func saidOf(applied *unstructured.Unstructured, p *sandbarv1alpha1.SandboxRouteParent) (s said) {
	var read struct {
		Parents []struct {
			ParentRef struct {
				Namespace   string `json:"namespace"`
				Name        string `json:"name"`
				SectionName string `json:"sectionName"`
				Port        int32  `json:"port"`
			} `json:"parentRef"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	}
	fields, _ := applied.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &read); err != nil {
		return said{} // it says nothing that anybody could read
	}
	for _, parent := range read.Parents {
		ref := parent.ParentRef
		if ref.Namespace != p.Namespace || ref.Name != p.Name || ref.SectionName != p.SectionName || ref.Port != p.Port {
			continue
		}
		for _, name := range []string{conditionAccepted, conditionResolvedRefs} {
			c := meta.FindStatusCondition(parent.Conditions, name)
			if c == nil || c.ObservedGeneration != applied.GetGeneration() {
				continue
			}
			if c.Status == metav1.ConditionFalse {
				s.failed = strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
			}
			s.accepted = s.accepted || name == conditionAccepted && c.Status == metav1.ConditionTrue
		}
	}
	return s
}
