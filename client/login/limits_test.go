// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "From an address to a bound workspace", false,
		limitstable.Limit{Name: "how long the workspace has to say whose a credential is", Number: limitstable.Duration(tryTimeout), Says: []string{fmt.Sprintf("within %s", tryTimeout)}},
	)
}
