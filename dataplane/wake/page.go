// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

func wakeTimedOut(limit time.Duration) *refusal.Error {
	return refusal.Unavailable(refusal.CauseWakeTimeout, fmt.Sprintf("the instance was asleep and did not wake within %s; it goes on waking: try again, and look at its conditions if that does not help", limit), 5*time.Second, nil)
}

// wakingPage is for a person in front of a browser. The longer it takes, the rarer the page is
// loaded again.
func wakingPage(took, limit time.Duration) *refusal.Error {
	const slowly = 30 * time.Second
	switch {
	case took > limit:
		return refusal.Unavailable(refusal.CauseWakeTimeout, fmt.Sprintf("the sandbox was asleep and did not wake within %s. This page tries again every %s; if that does not help, look at the sandbox's conditions", limit, slowly), slowly, nil)
	case took > 10*time.Second:
		return refusal.Unavailable(refusal.CauseWaking, "the sandbox was asleep and is waking, which takes longer than usual. This page loads the preview by itself", 3*time.Second, nil)
	}
	return refusal.Unavailable(refusal.CauseWaking, "the sandbox was asleep and is waking. This page loads the preview by itself", time.Second, nil)
}
