// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"fmt"
	"strconv"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfSessions(t *testing.T) {
	limitstable.Check(t, "../../../docs/limits.md", "Development sessions", true,
		limitstable.Limit{Name: "sessions of a workload", Number: "1"},
		limitstable.Limit{Name: "the name of a session", Number: fmt.Sprintf("%d characters", sandbarv1alpha1.MaxDevSessionName)},
		limitstable.Limit{Name: "`targetPath`", Number: fmt.Sprintf("%d characters", sandbarv1alpha1.MaxDevSessionTargetPath)},
		limitstable.Limit{Name: "words of a command, and characters of a word", Number: fmt.Sprintf("%d, %d", sandbarv1alpha1.MaxDevSessionCommand, sandbarv1alpha1.MaxDevSessionWord)},
		limitstable.Limit{Name: "a command, all words together", Number: limitstable.Bytes(devsession.MaxCommandBytes)},
		limitstable.Limit{Name: "the volume, by default", Number: sandbarv1alpha1.DefaultDevSessionStorage},
		limitstable.Limit{Name: "ports in a status", Number: strconv.Itoa(sandbarv1alpha1.MaxDevSessionPorts)},
		limitstable.Limit{Name: "time that the last requests have to end after a switch", Number: limitstable.Duration(devsession.Drain)},
		limitstable.Limit{Name: "wait for the copy, and for its endpoints, when a session ends", Number: limitstable.Duration(devsession.Patience)},
	)
}
