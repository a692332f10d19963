// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfTrustHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "Trusting a data plane", true,
		limitstable.Limit{Name: "a CA bundle that a data plane gives", Number: limitstable.Bytes(maxBundle), Says: []string{fmt.Sprintf("more than %d bytes", maxBundle)}},
		limitstable.Limit{Name: "how long fetching it takes", Number: limitstable.Duration(fetchTimeout)},
	)
}

func TestTheTableOfLimitsOfMessagesHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "Messages of commands, in the client", true,
		limitstable.Limit{Name: "a message of the runner, or of a pod's own exec", Number: limitstable.Bytes(maxExecOutput), Says: []string{"read limit exceeded"}},
	)
}
