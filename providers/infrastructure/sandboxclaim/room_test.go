// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"fmt"
	"testing"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// fleet.md, 2-T19: there is room for 15 of 20.
func TestOfABatchWithoutRoomForAllNoneIsLeft(t *testing.T) {
	w := newWorld(t, 20, map[string]any{"allOrNothing": true})
	w.look()
	for i := range 20 {
		phase := sandbarv1alpha1.InstanceReady
		if i >= 15 {
			phase = sandbarv1alpha1.InstancePendingCapacity
		}
		w.is(fmt.Sprintf("batch-%d", i), phase)
	}
	w.look()
	w.want(sandbarv1alpha1.ClaimClaiming, map[string]string{"Ready": "False NotReady: 15 of 20"})
	w.now = began.Add(time.Minute)
	w.look()
	w.want(sandbarv1alpha1.ClaimFailed, map[string]string{"TimedOut": "True QuotaExceeded: 15 of 20"})
	w.wantBoxes("what is left")
}
