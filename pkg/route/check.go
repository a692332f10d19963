// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Check refuses a spec that no Baseline and no group would make right, with a *RefusedError. The schema of SandboxRoutes says
// the same of all but regular expressions and headers that differ in case alone; this is asked again because a CRD can be
// edited, and a rule that is too long, or has a name twice, would have the Gateway API refuse all rules.
func Check(spec *sandbarv1alpha1.SandboxRouteSpec) error {
	if err := CheckSelectorHeader(spec.SelectorHeaderName); err != nil {
		return err
	}
	if err := checkProvider(spec); err != nil {
		return err
	}
	if err := bound("spec.rules", "rules", len(spec.Rules), 1, sandbarv1alpha1.MaxSandboxRouteRules); err != nil {
		return err
	}
	names := sets.New[string]()
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		field := fmt.Sprintf("spec.rules[%d]", i)
		if len(validation.IsDNS1123Label(rule.Name)) > 0 {
			return invalid("%s.name: %q is not a DNS label; use at most 63 of a-z, 0-9 and -", field, rule.Name)
		}
		if names.Has(rule.Name) {
			return invalid("%s.name: two rules are called %s; give one of them another name", field, rule.Name)
		}
		names.Insert(rule.Name)
		if err := checkRule(field, rule, spec); err != nil {
			return err
		}
	}
	return nil
}

// checkProvider refuses fields that are not the provider's.
func checkProvider(spec *sandbarv1alpha1.SandboxRouteSpec) error {
	switch spec.Provider {
	case sandbarv1alpha1.RouteByGateway, sandbarv1alpha1.RouteByIstio, sandbarv1alpha1.RouteByProxy:
	default:
		return invalid("spec.provider: %q is not a provider; use gateway, istio or proxy", spec.Provider)
	}
	if (spec.Gateway != nil) != (spec.Provider == sandbarv1alpha1.RouteByGateway) {
		return invalid("spec.gateway: is required with provider gateway, and refused with another")
	}
	if (spec.Istio != nil) != (spec.Provider == sandbarv1alpha1.RouteByIstio) {
		return invalid("spec.istio: is required with provider istio, and refused with another")
	}
	if spec.Gateway != nil {
		return checkGateway(spec.Gateway)
	}
	return nil
}

// hostname matches a hostname as the Gateway API has it.
var hostname = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func checkGateway(g *sandbarv1alpha1.SandboxRouteGateway) error {
	if err := checkParents(g.ParentRefs); err != nil {
		return err
	}
	// A route without hostnames takes all requests of its listener, also those for hostnames of others.
	if err := bound("spec.gateway.hostnames", "hostnames", len(g.Hostnames), 1, sandbarv1alpha1.MaxSandboxRouteHostnames); err != nil {
		return err
	}
	named := sets.New[string]()
	for i, name := range g.Hostnames {
		if len(name) > validation.DNS1123SubdomainMaxLength || !hostname.MatchString(name) {
			return invalid("spec.gateway.hostnames[%d]: %q is not a hostname; write it in lower case, as in shop.example.com or *.example.com", i, name)
		}
		if named.Has(name) {
			return invalid("spec.gateway.hostnames[%d]: %s is there twice; leave one out", i, name)
		}
		named.Insert(name)
	}
	return nil
}

// checkParents has the rules of the Gateway API for the parents of a route.
func checkParents(parents []sandbarv1alpha1.SandboxRouteParent) error {
	if err := bound("spec.gateway.parentRefs", "Gateways", len(parents), 1, sandbarv1alpha1.MaxSandboxRouteParents); err != nil {
		return err
	}
	for i, p := range parents {
		field := fmt.Sprintf("spec.gateway.parentRefs[%d]", i)
		switch {
		case len(validation.IsDNS1123Label(p.Namespace)) > 0:
			return invalid("%s.namespace: %q is not the name of a namespace; name that of the Gateway", field, p.Namespace)
		case len(validation.IsDNS1123Subdomain(p.Name)) > 0:
			return invalid("%s.name: %q is not the name of a Gateway", field, p.Name)
		case p.SectionName != "" && len(validation.IsDNS1123Subdomain(p.SectionName)) > 0:
			return invalid("%s.sectionName: %q is not the name of a listener", field, p.SectionName)
		case p.Port < 0 || p.Port > 65535:
			return invalid("%s.port: %d is not a port; use 1 to 65535", field, p.Port)
		}
		for _, other := range parents[:i] {
			if p.Namespace != other.Namespace || p.Name != other.Name {
				continue
			}
			if p.SectionName == other.SectionName || p.SectionName == "" || other.SectionName == "" {
				return invalid("%s: Gateway %s/%s is there twice; name another sectionName each time, or leave one out", field, p.Namespace, p.Name)
			}
		}
	}
	return nil
}

func checkRule(field string, rule *sandbarv1alpha1.SandboxRouteRule, spec *sandbarv1alpha1.SandboxRouteSpec) error {
	if (rule.TargetServiceRef != nil) != (spec.Provider == sandbarv1alpha1.RouteByProxy) {
		return invalid("%s.targetServiceRef: is required with provider proxy, and refused with another", field)
	}
	if err := bound(field+".matches", "matches", len(rule.Matches), 0, sandbarv1alpha1.MaxSandboxRouteMatches); err != nil {
		return err
	}
	for i := range rule.Matches {
		if err := checkMatch(fmt.Sprintf("%s.matches[%d]", field, i), &rule.Matches[i], strings.ToLower(spec.SelectorHeaderName)); err != nil {
			return err
		}
	}
	if err := bound(field+".backends", "backends", len(rule.Backends), 1, sandbarv1alpha1.MaxSandboxRouteBackends); err != nil {
		return err
	}
	var sum int64
	for i := range rule.Backends {
		b := &rule.Backends[i]
		if err := checkBackend(fmt.Sprintf("%s.backends[%d]", field, i), b, spec.SandboxGroupRef != nil); err != nil {
			return err
		}
		sum += int64(weightOf(b))
	}
	if sum == 0 {
		return invalid("%s.backends: at least one weight must be above 0", field)
	}
	return nil
}

func checkBackend(field string, b *sandbarv1alpha1.SandboxRouteBackend, hasGroup bool) error {
	if (b.Component != nil) == (b.Service != nil) {
		return invalid("%s: exactly one of component and service is required", field)
	}
	if w := weightOf(b); w < 0 || w > sandbarv1alpha1.MaxSandboxRouteWeight {
		return invalid("%s.weight: %d is not from 0 to %d", field, w, sandbarv1alpha1.MaxSandboxRouteWeight)
	}
	if b.Component != nil {
		if !hasGroup {
			return invalid("spec.sandboxGroupRef: is required for %s.component; name the SandboxGroup of component %q", field, b.Component.Name)
		}
		return checkPort(field+".component.port", b.Component.Port)
	}
	return checkPort(field+".service.port", b.Service.Port)
}

func checkPort(field string, port intstr.IntOrString) error {
	if port.Type == intstr.Int && (port.IntVal < 1 || port.IntVal > 65535) || port.Type == intstr.String && port.StrVal == "" {
		return invalid("%s: %s is not a port; use a number from 1 to 65535, or the name of a port", field, port.String())
	}
	return nil
}

// weightOf is the weight of a backend, 1 by default.
func weightOf(b *sandbarv1alpha1.SandboxRouteBackend) int32 {
	if b.Weight == nil {
		return 1
	}
	return *b.Weight
}

// bound refuses a list that is too short or too long.
func bound(field, what string, has, least, most int) error {
	switch {
	case has < least:
		return invalid("%s: at least %d of the %s is required", field, least, what)
	case has > most:
		return invalid("%s: %d %s are more than the %d that a SandboxRoute may have; leave some out, or create another SandboxRoute for them", field, has, what, most)
	}
	return nil
}

// plain reports whether a text has from 1 to most characters, and neither control characters nor the backtick, see token.
func plain(text string, most int) bool {
	if text == "" || utf8.RuneCountInString(text) > most || !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '`' })
}
