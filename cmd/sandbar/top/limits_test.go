// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfTheFullScreen(t *testing.T) {
	limitstable.Check(t, "../../../docs/limits.md", "The full screen", true,
		limitstable.Limit{Name: "lines of a log that are kept", Number: limitstable.Count(maxLines), Says: []string{fmt.Sprintf("the last %d lines", maxLines)}},
		limitstable.Limit{Name: "a line of a log", Number: limitstable.Count(maxLineCells) + " columns"},
		limitstable.Limit{Name: "lines that a log begins with", Number: limitstable.Count(LogLines)},
		limitstable.Limit{Name: "pieces of a log that wait for the screen", Number: limitstable.Count(maxWaiting)},
		limitstable.Limit{Name: "the filter", Number: fmt.Sprintf("%d bytes", maxFilter)},
		limitstable.Limit{Name: "the smallest terminal", Number: fmt.Sprintf("%d columns, %d lines", leastWidth, leastHeight), Says: []string{fmt.Sprintf("at least %d columns and %d lines", leastWidth, leastHeight)}},
	)
}
