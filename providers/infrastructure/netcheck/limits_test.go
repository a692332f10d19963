// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfTheCheck(t *testing.T) {
	pods := []string{podOpen, podShut, podFree, podConfined, podDNS, podFreeDNS}
	limitstable.Check(t, "../../../docs/limits.md", "The provider's own", false,
		limitstable.Limit{
			Name:   "the check of network policies and DNS",
			Number: fmt.Sprintf("%s, every %s; every %s while something is wrong", limitstable.Duration(checkTimeout), limitstable.Duration(interval), limitstable.Duration(retryInterval)),
		},
		limitstable.Limit{
			Name:   "pods of that check", // the quota is the manifest's: package install
			Number: fmt.Sprintf("%d at a time, %d s each, both by admission; 8 pods, 2 CPU, 512Mi, 512Mi of disk by its quota", len(pods), podSeconds),
		},
	)
}
