// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "From an address to a bound workspace", false,
		limitstable.Limit{Name: "how long a check of `doctor` takes", Number: limitstable.Duration(checkTimeout), Says: []string{fmt.Sprintf("within %s", checkTimeout)}},
	)
}
