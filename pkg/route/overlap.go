// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
)

// overlap says whether a request can meet two conditions at once.
type overlap int

const (
	never overlap = iota
	perhaps
	certainly
)

// unknownRank: the Gateway API does not say which of two paths comes first.
const unknownRank = 99

// comparison is of a condition of theirs with one of ours.
type comparison struct {
	overlap overlap
	// covers: each request that meets ours meets theirs.
	covers bool
	// rank is above 0 if theirs comes first, below 0 if ours does, and unknownRank.
	rank int
}

func comparePaths(theirs, ours *sandbarv1alpha1.SandboxRoutePathMatch) comparison {
	const expression, prefix = sandbarv1alpha1.RoutePathExpression, sandbarv1alpha1.RoutePathPrefix
	switch {
	case *theirs == *ours:
		return comparison{certainly, true, 0}
	case theirs.Type == expression || ours.Type == expression:
		return compareExpressions(theirs, ours)
	case theirs.Type == prefix && ours.Type == prefix:
		c := comparison{covers: below(ours.Value, theirs.Value), rank: cmp.Compare(len(theirs.Value), len(ours.Value))}
		if c.covers || below(theirs.Value, ours.Value) {
			c.overlap = certainly
		}
		return c
	case theirs.Type == prefix:
		if isBelow := below(ours.Value, theirs.Value); isBelow {
			return comparison{certainly, true, -1}
		}
	case ours.Type == prefix:
		if below(theirs.Value, ours.Value) {
			return comparison{certainly, false, 1}
		}
	}
	return comparison{} // two exact paths that differ, or an exact one that is not below the other
}

// compareExpressions is for paths one of which is a regular expression. The Gateway API says neither which comes first nor
// whether an expression is anchored: all that can be said is that an exact path has to be found by it, and that / covers all.
func compareExpressions(theirs, ours *sandbarv1alpha1.SandboxRoutePathMatch) comparison {
	c := comparison{overlap: perhaps, rank: unknownRank}
	exact, expression := theirs, ours
	if ours.Type == sandbarv1alpha1.RoutePathExact {
		exact, expression = ours, theirs
	}
	switch {
	case theirs.Type == sandbarv1alpha1.RoutePathPrefix && theirs.Value == "/":
		c.overlap, c.covers = certainly, true
	case ours.Type == sandbarv1alpha1.RoutePathPrefix && ours.Value == "/":
		c.overlap = certainly
	case exact.Type == sandbarv1alpha1.RoutePathExact && !finds(expression.Value, exact.Value):
		c.overlap = never
	}
	return c
}

// below reports whether a path is that of a prefix, or below it by whole elements.
func below(path, prefix string) bool {
	path, prefix = strings.TrimSuffix(path, "/"), strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// finds reports whether an expression may match a value. One that cannot be read may.
func finds(expression, value string) bool {
	e, err := regexp.Compile(expression)
	return err != nil || e.MatchString(value)
}

// compareConditions is for the headers, or the parameters, of two matches. All of a list have to be met.
func compareConditions(theirs, ours []condition) comparison {
	c := comparison{overlap: certainly, covers: true}
	for _, t := range theirs {
		i := slices.IndexFunc(ours, func(o condition) bool { return o.name == t.name })
		switch {
		case i < 0:
			c.covers = false
		case !t.meets(ours[i]):
			return comparison{}
		case t != ours[i]:
			c.covers = false
		}
	}
	return c
}

// meets reports whether a value may meet both conditions, which are of one name.
func (c condition) meets(other condition) bool {
	const exact = sandbarv1alpha1.RouteValueExact
	switch {
	case c.kind == exact && other.kind == exact:
		return c.value == other.value
	case c.kind == exact:
		return finds(other.value, c.value)
	case other.kind == exact:
		return finds(c.value, other.value)
	}
	return true
}

// idOf is the ID of the sandbox whose requests a match selects, by any header; empty for a match of something else.
func idOf(headers []condition) string {
	for _, h := range headers {
		if h.kind == sandbarv1alpha1.RouteValueExact && clone.IsID(h.value) {
			return h.value
		}
		id, hasBegin := strings.CutPrefix(h.value, expressionBefore)
		id, hasEnd := strings.CutSuffix(id, expressionBehind)
		if hasBegin && hasEnd && clone.IsID(id) {
			return id
		}
	}
	return ""
}

func headersOf(m *sandbarv1alpha1.SandboxRouteMatch) []condition {
	var all []condition
	for _, h := range m.Headers {
		all = append(all, condition{h.Type, h.Name, h.Value})
	}
	return all
}

func queryOf(m *sandbarv1alpha1.SandboxRouteMatch) []condition {
	var all []condition
	for _, q := range m.QueryParams {
		all = append(all, condition{q.Type, q.Name, q.Value})
	}
	return all
}
