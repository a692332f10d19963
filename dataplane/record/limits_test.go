// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheRatesOfTheAuditLog(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Not in the object", false,
		limitstable.Limit{
			Name:   "lines of the audit log of unknown callers, and of requests refused to known ones",
			Number: fmt.Sprintf("%d and %d per second; a quarter of these of one address or one caller", anonymousLineRate, refusedLineRate),
		},
	)
}
