// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"strconv"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfRoutes(t *testing.T) {
	number := func(name string, numbers ...int) limitstable.Limit {
		texts := make([]string, len(numbers))
		for i, n := range numbers {
			texts[i] = strconv.Itoa(n)
		}
		return limitstable.Limit{Name: name, Number: strings.Join(texts, ", ")}
	}
	limitstable.Check(t, "../../../docs/limits.md", "Sandbox routes", true,
		number("rules of a route", sandbarv1alpha1.MaxSandboxRouteRules),
		number("matches of a rule", sandbarv1alpha1.MaxSandboxRouteMatches),
		number("headers, and parameters of the query, of a match", sandbarv1alpha1.MaxSandboxRouteHeaders, sandbarv1alpha1.MaxSandboxRouteQueryParams),
		number("backends of a rule", sandbarv1alpha1.MaxSandboxRouteBackends),
		number("the weight of a backend", sandbarv1alpha1.MaxSandboxRouteWeight),
		number("Gateways, and hostnames, of a route", sandbarv1alpha1.MaxSandboxRouteParents, sandbarv1alpha1.MaxSandboxRouteHostnames),
		number("endpoints in a status", sandbarv1alpha1.MaxSandboxRouteEndpoints),
		number("shadowed rules in a status", sandbarv1alpha1.MaxSandboxRouteShadowed),
		number("Gateways, and hostnames, of a Baseline", sandbarv1alpha1.MaxBaselineParents, sandbarv1alpha1.MaxBaselineHostnames),
		limitstable.Limit{Name: "how often all routes are looked at for what routes of others take from them", Number: "every " + limitstable.Duration(gather)},
	)
}
