// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "From an address to a bound workspace", false,
		limitstable.Limit{Name: "how long a refusal of a new kind counts as one of the moment", Number: limitstable.Duration(rightsPatience)},
	)
}
