// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// refusalStep is what the time to a refusal is rounded up to. It is above what kcp takes to answer,
// so that nearly all refusals take one step.
const refusalStep = 50 * time.Millisecond

// evenOut has a refusal that hides what exists take as long for the one as for the other. kcp
// answers sooner for a workspace that is not there, and not at all where there is no binding to ask
// through; over some hundred requests that tells which workspaces exist. What takes longer than a
// step, because kcp is slow, takes the next one.
func (x *exchange) evenOut(refused *refusal.Error) {
	if !refused.HidesWhatExists() {
		return
	}
	timer := time.NewTimer(untilStep(time.Since(x.started)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.request.Context().Done():
	}
}

// untilStep is how much is missing from a time to the next step.
func untilStep(took time.Duration) time.Duration { return refusalStep - took%refusalStep }
