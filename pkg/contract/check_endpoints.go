// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// located is an endpoint with the place where the Template declares it.
type located struct {
	sandbarv1alpha1.Endpoint

	field string
	verb  string
}

// eachComponentField is where a Template declares what each component of the tenant's has.
const eachComponentField = "spec.dataPlane.eachComponent"

func checkDataPlane(dp *sandbarv1alpha1.DataPlane, status map[string]any) []Problem {
	const field = "spec.dataPlane"
	var problems []Problem
	if dp.TokenSecretRef != "" {
		problems = append(problems, checkRef(field+".tokenSecretRef", dp.TokenSecretRef, status)...)
	}
	all := locate(dp)
	for _, e := range all {
		problems = append(problems, checkEndpoint(e, status)...)
	}
	for name, component := range dp.Components {
		at := field + ".components." + name
		problems = append(problems, checkLabel(at, "component", name)...)
		if len(component.Endpoints) == 0 {
			problems = append(problems, Problem{at + ".endpoints", "must have at least one verb"})
		}
	}
	if dp.EachComponent != nil && len(dp.EachComponent.Endpoints) == 0 {
		problems = append(problems, Problem{eachComponentField + ".endpoints", "must have at least one verb"})
	}
	problems = append(problems, checkRoles(dp, all)...)
	problems = append(problems, checkAllPorts(dp, all)...)
	return append(problems, checkPairs(all)...)
}

// locate lists all endpoints, sorted by where they are declared.
func locate(dp *sandbarv1alpha1.DataPlane) []located {
	var all []located
	add := func(prefix string, endpoints map[string]sandbarv1alpha1.Endpoint) {
		for verb, e := range endpoints {
			all = append(all, located{Endpoint: e, field: prefix + ".endpoints." + verb, verb: verb})
		}
	}
	add("spec.dataPlane", dp.Endpoints)
	for name, component := range dp.Components {
		add("spec.dataPlane.components."+name, component.Endpoints)
	}
	if dp.EachComponent != nil {
		add(eachComponentField, dp.EachComponent.Endpoints)
	}
	slices.SortFunc(all, func(a, b located) int { return strings.Compare(a.field, b.field) })
	return all
}

func checkEndpoint(e located, status map[string]any) []Problem {
	problems := checkVerb(e)
	if e.StreamDurationSeconds != 0 && !e.Stream && !e.Upgrade {
		problems = append(problems, Problem{e.field + ".streamDurationSeconds", "needs stream or upgrade: nothing else of an endpoint is a stream"})
	}
	targets := 0
	for _, target := range []string{e.ServiceRef, e.PodRef, e.PodsOf, e.From} {
		if target != "" {
			targets++
		}
	}
	if targets != 1 {
		return append(problems, Problem{e.field, "must have exactly one of serviceRef, podRef, podsOf and from"})
	}
	isEach := strings.HasPrefix(e.field, eachComponentField)
	switch {
	case isEach != (e.PodsOf != ""):
		// A path of the status names one object for all components.
		return append(problems, Problem{e.field, "podsOf is for the endpoints of " + eachComponentField + ", which have no other target"})
	case e.PodsOf != "" && e.PodsOf != PodsOfComponent:
		return append(problems, Problem{e.field + ".podsOf", "must be " + PodsOfComponent})
	case isEach:
		return append(problems, checkPodEndpoint(e)...)
	case e.ServiceRef != "":
		return append(problems, checkServiceEndpoint(e, status)...)
	case e.PodRef != "":
		problems = append(problems, checkRef(e.field+".podRef", e.PodRef, status)...)
		return append(problems, checkPodEndpoint(e)...)
	default:
		return append(problems, checkFromEndpoint(e)...)
	}
}

// checkVerb keeps verbs away from names that mean something else: in a path, or as the
// subresource under which the verb is authorized.
func checkVerb(e located) []Problem {
	problems := checkLabel(e.field, "verb", e.verb)
	switch {
	case e.verb == componentsSegment:
		problems = append(problems, Problem{e.field, "is reserved: …/components/<component>/<verb> leads to a component's verbs"})
	case e.verb == portsSegment:
		problems = append(problems, Problem{e.field, "is reserved: …/ports/<port>/" + ProxyVerb + " leads to a port that the caller names"})
	case e.verb == ProxyURLVerb:
		problems = append(problems, Problem{e.field, "is reserved: every kind with the verb " + ProxyVerb + " has it already"})
	case e.verb == RenewVerb:
		problems = append(problems, Problem{e.field, "is reserved: every kind has it already"})
	case e.verb == "scale":
		problems = append(problems, Problem{e.field, "is reserved: Kubernetes gives the subresource scale a meaning of its own"})
	case e.verb == StatusVerb && e.From != FromInstanceStatus:
		// <resource>/status is the subresource that tenants must never write.
		problems = append(problems, Problem{e.field, "must have from: " + FromInstanceStatus + "; the subresource status is the instance's own"})
	}
	return problems
}

func checkServiceEndpoint(e located, status map[string]any) []Problem {
	problems := checkRef(e.field+".serviceRef", e.ServiceRef, status)
	problems = append(problems, checkMethods(e)...)
	if e.Port == "" {
		problems = append(problems, Problem{e.field + ".port", "must name a port of the Service"})
	}
	problems = append(problems, unwanted(e, "serviceRef", map[string]bool{
		"podSubresource": e.PodSubresource != "", "container": e.Container != "",
	})...)
	if e.Upgrade && !slices.Contains(e.Methods, "GET") {
		problems = append(problems, Problem{e.field + ".upgrade", "needs the method GET: an upgrade is a GET"})
	}
	return problems
}

func checkFromEndpoint(e located) []Problem {
	problems := unwanted(e, "from", map[string]bool{
		"port": e.Port != "", "upstreamPath": e.UpstreamPath != "", "upgrade": e.Upgrade, "stream": e.Stream,
		"podSubresource": e.PodSubresource != "", "container": e.Container != "",
	})
	switch e.From {
	case FromInstanceStatus:
		if slices.ContainsFunc(e.Methods, func(m string) bool { return m != "GET" && m != "HEAD" }) {
			problems = append(problems, Problem{e.field + ".methods", "the status can only be read: GET"})
		}
	case FromPassword:
		// A right to get everything is one to look, and must not open a database.
		if !slices.Equal(e.Methods, []string{"POST"}) {
			problems = append(problems, Problem{e.field + ".methods", "must be [POST], for which kcp is asked for create: who may only get must not have a password"})
		}
	default:
		problems = append(problems, Problem{e.field + ".from", "must be " + FromInstanceStatus + " or " + FromPassword})
	}
	return problems
}

func checkMethods(e located) []Problem {
	if len(e.Methods) == 0 {
		return []Problem{{e.field + ".methods", "must name at least one HTTP method"}}
	}
	return nil
}

// unwanted reports fields that mean nothing beside the endpoint's target.
func unwanted(e located, target string, set map[string]bool) []Problem {
	var problems []Problem
	for name, isSet := range set {
		if isSet {
			problems = append(problems, Problem{e.field + "." + name, "means nothing beside " + target + "; remove it"})
		}
	}
	return problems
}

// checkRoles refuses a status path that is to be two things at once: it cannot name a Service
// here and a Secret there.
func checkRoles(dp *sandbarv1alpha1.DataPlane, all []located) []Problem {
	roles := map[string]string{}
	if dp.TokenSecretRef != "" {
		roles[dp.TokenSecretRef] = "the Secret of tokenSecretRef"
	}
	var problems []Problem
	claim := func(field, path, role string) {
		if path == "" {
			return
		}
		if other, ok := roles[path]; ok && other != role {
			problems = append(problems, Problem{field, fmt.Sprintf("%s is %s already; it cannot be %s too", path, other, role)})
			return
		}
		roles[path] = role
	}
	for _, e := range all {
		claim(e.field+".serviceRef", e.ServiceRef, "a Service")
		claim(e.field+".podRef", e.PodRef, "a Pod")
	}
	return problems
}

// checkPairs refuses two verbs of which one contains the other. Whoever may call the outer one
// reaches the inner one through its tail, without the right to it: the grant of the inner verb
// would say nothing. A verb of a component and the instance's verb of the same name are one
// right, so they may overlap.
func checkPairs(all []located) []Problem {
	var problems []Problem
	for _, outer := range all {
		for _, inner := range all {
			if outer.verb == inner.verb || !contains(outer.Endpoint, inner.Endpoint) {
				continue
			}
			problems = append(problems, Problem{outer.field + ".upstreamPath", fmt.Sprintf(
				"%s contains %s of verb %s at the same port with the same method: who may call %s could call %s; give them paths of their own",
				upstreamPath(outer.Endpoint), upstreamPath(inner.Endpoint), inner.verb, outer.verb, inner.verb)})
		}
	}
	return problems
}

func contains(outer, inner sandbarv1alpha1.Endpoint) bool {
	if outer.ServiceRef == "" || outer.ServiceRef != inner.ServiceRef || outer.Port != inner.Port {
		return false
	}
	if !sets.New(outer.Methods...).HasAny(inner.Methods...) {
		return false
	}
	o, i := strings.TrimSuffix(upstreamPath(outer), "/"), strings.TrimSuffix(upstreamPath(inner), "/")
	return i == o || strings.HasPrefix(i, o+"/")
}

func upstreamPath(e sandbarv1alpha1.Endpoint) string {
	if e.UpstreamPath == "" {
		return "/"
	}
	return e.UpstreamPath
}
