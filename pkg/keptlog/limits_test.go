// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package keptlog

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfAKeptLog(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Files", false,
		limitstable.Limit{Name: "the log that is kept of a container before a suspension", Number: fmt.Sprintf("%s, of %d containers", limitstable.Bytes(ContainerBytes), MaxContainers)},
		limitstable.Limit{Name: "all kept logs of an instance, unpacked", Number: limitstable.Bytes(maxBytes)},
	)
}
