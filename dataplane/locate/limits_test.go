// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfRequests(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Not in the object", false,
		limitstable.Limit{Name: "a request's path and query together", Number: limitstable.Bytes(maxTargetBytes), Says: []string{fmt.Sprintf("longer than %d bytes", maxTargetBytes)}},
		limitstable.Limit{
			Name:   "how long a request waits for the placement of a young object; how young that is; such requests",
			Number: fmt.Sprintf("%s; %s; %s", limitstable.Duration(earlyPatience), limitstable.Duration(earlyYouth), limitstable.Count(earlyMost)),
		},
	)
}
