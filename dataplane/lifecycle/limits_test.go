// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfUse(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Keeping instances in use", true,
		limitstable.Limit{Name: "how long a request waits until its use is recorded", Number: limitstable.Duration(RecordWait)},
		limitstable.Limit{Name: "how long an instance may be used after its record was due", Number: limitstable.Duration(inuse.Grace)},
		limitstable.Limit{Name: "how long a replica serves without a renewal of its Lease", Number: limitstable.Duration(inuse.FenceAfter)},
	)
}
