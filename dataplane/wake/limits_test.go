// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasThePatienceWithApps(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Not in the object", false,
		limitstable.Limit{Name: "how long a request waits for an app to listen whose pod is ready after a wake", Number: limitstable.Duration(listenPatience)},
	)
}
