// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfObjectsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Objects and selectors", true,
		limitstable.Limit{Name: "requirements of a label selector", Number: limitstable.Count(MaxRequirements), Says: []string{fmt.Sprintf("at most %d are allowed", MaxRequirements)}},
		limitstable.Limit{Name: "a selector", Number: limitstable.Bytes(MaxSelectorBytes), Says: []string{fmt.Sprintf("at most %d are allowed", MaxSelectorBytes)}},
		limitstable.Limit{Name: "objects that one request of a list asks for", Number: limitstable.Count(DefaultPageSize)},
		limitstable.Limit{Name: "the index of a list's element in `--set`", Number: limitstable.Count(maxElements - 1), Says: []string{fmt.Sprintf("above %d", maxElements-1)}},
		limitstable.Limit{Name: "fields that the error of a stale version names", Number: limitstable.Count(mostChanges)},
		limitstable.Limit{Name: "events that are read of an object", Number: limitstable.Count(maxEvents)},
	)
}
