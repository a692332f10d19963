// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfPodTemplates(t *testing.T) {
	if maxProblems != 8 {
		t.Errorf("a refusal names %d problems, and the document says eight", maxProblems)
	}
	limitstable.CheckText(t, "../../docs/limits.md", "What a placement and its pods may use",
		fmt.Sprintf("%d containers with those that initialize", maxContainers), fmt.Sprintf("have %d at most", maxContainers),
		fmt.Sprintf("%d volumes", maxVolumes), limitstable.Bytes(MaxPatchBytes)+" of `patch`", fmt.Sprintf("%d seconds of grace", MaxGraceSeconds),
		"a refusal names eight problems")
	for _, rule := range fieldRules {
		if rule.fields == "terminationGracePeriodSeconds" && !strings.Contains(rule.why, fmt.Sprintf("at most %d:", MaxGraceSeconds)) {
			t.Errorf("%s.%s says %q", rule.of, rule.fields, rule.why)
		}
	}
}
