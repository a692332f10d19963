// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumberOfRotations(t *testing.T) {
	limitstable.Check(t, "../../../docs/limits.md", "Control servers", false,
		limitstable.Limit{Name: "control Secrets that a rotation writes", Number: fmt.Sprintf("%d per second", Options{}.withDefaults().RotationsPerSecond)},
	)
}
