// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheSizeOfAToken(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Not in the object", false,
		limitstable.Limit{Name: "a bearer token", Number: limitstable.Bytes(maxTokenBytes)},
	)
}
