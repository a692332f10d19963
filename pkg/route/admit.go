// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Admit reports by its error, a *RefusedError, which Gateway or hostname of a route the Baseline of a name does not admit. A spec
// without gateway is admitted: there is nothing to ask.
//
// It is the one place that decides where a tenant's rules may stand. The attack: rules at the hostname of another system, or
// at a Gateway that is not for tenants, which would take its requests from anyone who can set a header.
func Admit(spec *sandbarv1alpha1.SandboxRouteSpec, name string, routing *sandbarv1alpha1.BaselineRouting) error {
	if spec.Gateway == nil {
		return nil
	}
	admitted := &routing.Gateway
	for i := range spec.Gateway.ParentRefs {
		p := &spec.Gateway.ParentRefs[i]
		if !slices.ContainsFunc(admitted.ParentRefs, func(a sandbarv1alpha1.BaselineParent) bool { return admitsParent(a, p) }) {
			return notAdmitted(fmt.Sprintf("spec.gateway.parentRefs[%d]", i), "Gateway "+parentName(p.Namespace, p.Name, p.SectionName), name, "parentRefs", parentNames(admitted.ParentRefs))
		}
	}
	// Without hostnames a route takes all that the listener takes. The schema and Check refuse it before.
	if len(spec.Gateway.Hostnames) == 0 {
		return invalid("spec.gateway.hostnames: at least one is required; Baseline %s admits %s", name, listed(admitted.Hostnames))
	}
	for i, hostname := range spec.Gateway.Hostnames {
		if !slices.ContainsFunc(admitted.Hostnames, func(a string) bool { return admitsHostname(a, hostname) }) {
			return notAdmitted(fmt.Sprintf("spec.gateway.hostnames[%d]", i), "hostname "+hostname, name, "hostnames", admitted.Hostnames)
		}
	}
	return nil
}

// admitsParent: an entry without sectionName admits all listeners of its Gateway. A port of the tenant's narrows the
// listeners in any case.
func admitsParent(a sandbarv1alpha1.BaselineParent, p *sandbarv1alpha1.SandboxRouteParent) bool {
	return a.Namespace == p.Namespace && a.Name == p.Name && (a.SectionName == "" || a.SectionName == p.SectionName)
}

// admitsHostname reports whether an entry of a Baseline admits a hostname: its own, or below its wildcard. The attacks that
// the dot is for: evil-example.com is not below *.example.com, and neither is example.com itself.
func admitsHostname(entry, hostname string) bool {
	if entry == "" || hostname == "" {
		return false
	}
	if entry == hostname {
		return true
	}
	return isWildcard(entry) && covers(entry, hostname)
}

func notAdmitted(field, value, name, list string, admits []string) error {
	return refuse(sandbarv1alpha1.RouteNotAllowed, "%s: %s is not one that Baseline %s admits; it admits %s. Name one of those, or ask the operator to add it to spec.routing.gateway.%s of the Baseline",
		field, value, name, listed(admits), list)
}

func parentName(namespace, name, section string) string {
	if section == "" {
		return namespace + "/" + name
	}
	return namespace + "/" + name + " (listener " + section + ")"
}

func parentNames(parents []sandbarv1alpha1.BaselineParent) []string {
	var names []string
	for _, p := range parents {
		names = append(names, parentName(p.Namespace, p.Name, p.SectionName))
	}
	return names
}

// maxListed is how many entries a message has before it counts the rest.
const maxListed = 5

func listed(entries []string) string {
	switch {
	case len(entries) == 0:
		return "none"
	case len(entries) > maxListed:
		return fmt.Sprintf("%s and %d more", strings.Join(entries[:maxListed], ", "), len(entries)-maxListed)
	}
	return strings.Join(entries, ", ")
}
