// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfProofs(t *testing.T) {
	if 2*Window != 2*time.Minute {
		t.Errorf("a generation of proofs lasts %s, and the document says two minutes", 2*Window)
	}
	limitstable.Check(t, "../../docs/limits.md", "Control servers", false,
		limitstable.Limit{
			Name: "proofs that a control server remembers", Number: limitstable.Count(maxSeen) + " of two minutes, and as many before",
			Says: []string{limitstable.Count(maxSeen) + " others"},
		},
	)
}
