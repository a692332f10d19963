// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheCommandLinesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "The command line", true,
		limitstable.Limit{Name: "instances that are compared with a name that does not exist", Number: limitstable.Count(mostCompared), Says: []string{fmt.Sprintf("the first %d ", mostCompared)}},
		limitstable.Limit{Name: "instances that the error names when no name is similar", Number: limitstable.Count(mostOthers)})
}
