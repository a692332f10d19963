// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheGraceOfCommands(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Commands in a sandbox", false,
		limitstable.Limit{Name: "a command without a client", Number: limitstable.Duration(DefaultDetached), Says: []string{"KILL " + limitstable.Duration(endGrace) + " later"}},
		limitstable.Limit{Name: "how long a client that takes nothing keeps a command from ending", Number: limitstable.Duration(2 * endGrace)},
	)
}
