// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"cmp"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// pair is a match of ours and one of another route, for hostnames that intersect.
type pair struct {
	ours, theirs       *sandbarv1alpha1.SandboxRouteMatch // normal
	ourName, theirName string                             // an empty one means all names
	// older says that the other route comes first if nothing else decides.
	older bool
}

// cause is what the other match comes first by.
type cause int

const (
	byHostname cause = iota + 1
	byPath
	byMethod
	byHeaders
	byQuery
	byAge
	byUnknown
)

// taking is what the other match takes.
type taking struct {
	*pair

	extent Extent
	cause  cause
	// doubt is what it depends on whether anything is taken, with Perhaps.
	doubt string
}

// What it depends on.
const (
	doubtListener   = "depending on the hostname of the listener, "
	doubtExpression = "depending on a regular expression, "
	doubtOrder      = "unless the Gateway keeps to the order of the Gateway API, "
)

// judge returns what the other match takes of the requests of ours, nil for nothing. It takes what both match, if it comes
// first.
func (p *pair) judge() *taking {
	path := comparePaths(p.theirs.Path, p.ours.Path)
	if path.overlap == never || p.theirs.Method != "" && p.ours.Method != "" && p.theirs.Method != p.ours.Method {
		return nil
	}
	theirs, ours := headersOf(p.theirs), headersOf(p.ours)
	// What is told of another route is what the tenant may know. The attack: a SandboxRoute for all paths and each header,
	// whose status lists the routes of all other tenants.
	if id := idOf(theirs); id != "" && id != idOf(ours) {
		return nil
	}
	headers := compareConditions(theirs, ours)
	query := compareConditions(queryOf(p.theirs), queryOf(p.ours))
	if headers.overlap == never || query.overlap == never {
		return nil
	}
	t := &taking{pair: p, extent: Some}
	if t.cause, t.doubt = p.first(path); t.cause == 0 {
		return nil
	}
	if t.doubt == "" && path.overlap == perhaps {
		t.doubt = doubtExpression
	}
	switch {
	case t.doubt != "":
		t.extent = Perhaps
	case covers(p.theirName, p.ourName) && path.covers && headers.covers && query.covers && (p.theirs.Method == "" || p.theirs.Method == p.ours.Method):
		t.extent = All
	}
	return t
}

// isWithin reports whether each request that both matches of the pair match is one of a third match and its hostname.
func (p *pair) isWithin(hostname string, m *sandbarv1alpha1.SandboxRouteMatch) bool {
	both := p.theirName // the narrower of two that intersect
	if !covers(p.ourName, p.theirName) {
		both = p.ourName
	}
	isMet := func(conditions, theirs, ours []condition) bool {
		return !slices.ContainsFunc(conditions, func(c condition) bool { return !slices.Contains(theirs, c) && !slices.Contains(ours, c) })
	}
	return covers(hostname, both) &&
		(m.Method == "" || m.Method == p.theirs.Method || m.Method == p.ours.Method) &&
		(comparePaths(m.Path, p.theirs.Path).covers || comparePaths(m.Path, p.ours.Path).covers) &&
		isMet(headersOf(m), headersOf(p.theirs), headersOf(p.ours)) && isMet(queryOf(m), queryOf(p.theirs), queryOf(p.ours))
}

// first returns by what the other match comes first, 0 if it does not, and what that depends on.
//
// A route that names no hostname has that of its listener, which may be as specific as ours, and not more: it comes first only
// if the matches say so. So does a route whose hostname is less specific, at a controller that adds all up (Traefik 3.6):
// there, a longer path outweighs the hostname, and a method outweighs ten characters of a path.
func (p *pair) first(path comparison) (cause, string) {
	doubt, hasWorseName := "", false
	switch order := cmp.Compare(specificity(p.theirName), specificity(p.ourName)); {
	case p.theirName == "":
		doubt = doubtListener
	case order > 0:
		return byHostname, ""
	case order < 0:
		doubt, hasWorseName = doubtOrder, true
	}
	method := cmp.Compare(min(1, len(p.theirs.Method)), min(1, len(p.ours.Method)))
	switch {
	case path.rank == unknownRank:
		return byUnknown, cmp.Or(doubt, doubtExpression)
	case path.rank > 0:
		return byPath, doubt
	case path.rank < 0 && method > 0 && p.theirs.Path.Value != "/":
		return byMethod, cmp.Or(doubt, doubtOrder)
	case path.rank < 0:
		return 0, ""
	}
	for _, step := range []struct {
		cause cause
		order int
	}{
		{byMethod, method},
		{byHeaders, cmp.Compare(len(p.theirs.Headers), len(p.ours.Headers))},
		{byQuery, cmp.Compare(len(p.theirs.QueryParams), len(p.ours.QueryParams))},
	} {
		switch {
		case step.order > 0:
			return step.cause, doubt
		case step.order < 0:
			return 0, ""
		}
	}
	if hasWorseName || !p.older {
		return 0, ""
	}
	return byAge, doubt
}

// specificity orders hostnames that intersect: names before wildcards, then the longer one.
func specificity(hostname string) int {
	const name = 1 << 10 // more than any hostname is long
	if isWildcard(hostname) || hostname == "" {
		return len(hostname)
	}
	return name + len(hostname)
}

// message says what is taken, and what to do.
func (t *taking) message(by string) string {
	kind, path := pathOf(t.theirs.Path)
	switch t.cause {
	case byPath:
		requests := "requests for " + path
		if kind == sandbarv1alpha1.RoutePathPrefix {
			requests += " and below"
		}
		return t.doubt + requests + " go to " + by + ", whose path is more specific: give the rule a match of type " + string(kind) + " with the path " + path + ", which " + by + " routes"
	case byMethod:
		return t.doubt + t.theirs.Method + " requests go to " + by + ", which names the method: give the rule a match with the path " + path + " and the method " + t.theirs.Method
	case byHeaders:
		return t.doubt + "requests with the headers " + names(headersOf(t.theirs)) + " go to " + by + ", which asks for more headers: give the rule a match with the path " + path + " and the same headers"
	case byQuery:
		return t.doubt + "requests with the parameters " + names(queryOf(t.theirs)) + " go to " + by + ", which asks for more parameters of the query: give the rule a match with the path " + path + " and the same parameters"
	case byHostname:
		return t.doubt + "requests for " + t.theirName + " go to " + by + ", whose hostname is more specific: name " + t.theirName + " in spec.gateway.hostnames"
	case byAge:
		return t.doubt + "requests for " + path + " go to " + by + ", which has the same conditions and is older: give one of the two a longer path, or delete one"
	case byUnknown:
		return t.doubt + "requests for " + path + " go to " + by + ": the Gateway orders regular expressions of paths as it likes; use paths of the types Exact and PathPrefix"
	}
	return ""
}

func names(conditions []condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}
