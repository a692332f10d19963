// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfCopies(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Files", false,
		limitstable.Limit{Name: "`cp` from a pod without a runner", Number: limitstable.Count(maxPodEntries) + " entries", Says: []string{fmt.Sprintf("more than %d entries", maxPodEntries)}},
		limitstable.Limit{Name: "second names of files (hard links) in it, as copies", Number: limitstable.Bytes(maxPodCopies), Says: []string{ReasonSecondName}})
}
