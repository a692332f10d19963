// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"strconv"
	"testing"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfProxies(t *testing.T) {
	number := func(name string, n int) limitstable.Limit {
		return limitstable.Limit{Name: name, Number: strconv.Itoa(n)}
	}
	limitstable.Check(t, "../../docs/limits.md", "Proxies in front of Services", true,
		number("ports of a Service with proxies", MaxPorts),
		number("matches of a route for one Service", MaxIntentRules),
		limitstable.Limit{Name: "what a route says for one Service", Number: limitstable.Bytes(MaxIntentBytes)},
		number("rules of all routes of a Service", wire.MaxRules),
		limitstable.Limit{Name: "what they say together", Number: limitstable.Bytes(wire.MaxBytes)},
		number("of these, those of one workspace", MaxTenantRules),
		limitstable.Limit{Name: "what these say together", Number: limitstable.Bytes(MaxTenantBytes)},
		limitstable.Limit{Name: "of this, what those of one workspace say", Number: limitstable.Bytes(MaxShareBytes)},
		limitstable.Limit{Name: "what all routes of a namespace say", Number: limitstable.Bytes(MaxRoutesBytes), Says: []string{"1 MiB"}},
		number("proxies of a Service", Replicas),
		limitstable.Limit{Name: "time without a proxy that is ready", Number: limitstable.Duration(FailOpenAfter), Says: []string{"for " + limitstable.Duration(ReadyFor)}},
		limitstable.Limit{Name: "wait before proxies come that have gone with their routes", Number: fmt.Sprintf("none after the first time, then %s, doubled up to %s; forgotten after %s",
			limitstable.Duration(DampFirst), limitstable.Duration(DampLast), limitstable.Duration(ForgetDetaches)), Says: []string{"`Pending`"}},
		limitstable.Limit{Name: "wait before they are tried again", Number: fmt.Sprintf("%s, doubled; %s from the %dth time on; forgotten after %s",
			limitstable.Duration(RetryFirst), limitstable.Duration(RetryLast), MaxFailures, limitstable.Duration(ForgetAfter)), Says: []string{"other proxies"}},
		limitstable.Limit{Name: "time for proxies to start", Number: limitstable.Duration(PendingFor)},
		limitstable.Limit{Name: "changes of the selector by somebody else", Number: "2 in " + limitstable.Duration(ConflictWithin), Says: []string{"left alone for " + limitstable.Duration(ConflictFor)}},
		limitstable.Limit{Name: "time that clients have to leave a proxy", Number: limitstable.Duration(DrainFor)},
	)
}
