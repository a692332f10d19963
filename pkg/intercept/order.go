// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"cmp"
	"slices"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// sortIntents puts the oldest first, and of two of one second the one whose UID is less.
func sortIntents(intents []*Intent) {
	slices.SortFunc(intents, func(a, b *Intent) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.UID, b.UID))
	})
}

// sortRules puts rules into the order of the Gateway API: the exact path, then the longer one, the method, more headers, more
// parameters of the query. Those that are equal keep their order, which is that of their routes' age. The Gateway API leaves the
// place of regular expressions open: here it is behind exact paths, since an expression is there for some paths of a prefix.
func sortRules(rules []wire.Rule) {
	slices.SortStableFunc(rules, func(a, b wire.Rule) int {
		x, y := &a.Match, &b.Match
		return cmp.Or(
			cmp.Compare(rank(y), rank(x)),
			cmp.Compare(len(pathOf(y)), len(pathOf(x))),
			cmp.Compare(min(1, len(y.Method)), min(1, len(x.Method))),
			cmp.Compare(len(y.Headers), len(x.Headers)),
			cmp.Compare(len(y.QueryParams), len(x.QueryParams)),
		)
	})
}

func rank(m *sandbarv1alpha1.SandboxRouteMatch) int {
	if m.Path == nil {
		return 0
	}
	switch m.Path.Type {
	case sandbarv1alpha1.RoutePathExact:
		return 2
	case sandbarv1alpha1.RoutePathExpression:
		return 1
	case sandbarv1alpha1.RoutePathPrefix:
	}
	return 0
}

func pathOf(m *sandbarv1alpha1.SandboxRouteMatch) string {
	if m.Path == nil {
		return ""
	}
	return m.Path.Value
}
