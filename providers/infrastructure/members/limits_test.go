// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfResizes(t *testing.T) {
	limitstable.Check(t, "../../../docs/limits.md", "Sandboxes that get other resources when they are taken", true,
		limitstable.Limit{
			Name: "how long a node may take to give a sandbox of a set the resources of its template", Number: fmt.Sprintf("%.0f s", ResizePatience.Seconds()),
		},
		limitstable.Limit{
			Name: "sandboxes of sets that are tried for one Sandbox in vain, within 5 minutes", Number: strconv.Itoa(maxResizes),
		},
	)
	if resizesForgotten.Minutes() != 5 {
		t.Errorf("the table says 5 minutes, and it is %v", resizesForgotten)
	}
}
