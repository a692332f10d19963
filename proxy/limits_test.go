// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"strconv"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfAProxy(t *testing.T) {
	number := func(name string, n int) limitstable.Limit {
		return limitstable.Limit{Name: name, Number: strconv.Itoa(n)}
	}
	limitstable.Check(t, "../docs/limits.md", "At each proxy", true,
		number("connections of clients", DefaultConnections),
		number("requests that a copy has under way", DefaultCopyRequests),
		number("those of all copies of a sandbox", newSlots(DefaultCopyRequests, DefaultCopiesRequests).sandbox),
		number("those of all copies", DefaultCopiesRequests),
		number("connections of the admin port", MaxAdminConnections),
		limitstable.Limit{Name: "silence of one of these", Number: limitstable.Duration(adminTimeout)},
	)
}
