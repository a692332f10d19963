// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"net/http"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

func TestTheLongerAWakeTakesTheRarerThePageLoadsItself(t *testing.T) {
	for took, want := range map[time.Duration]struct {
		cause   string
		seconds int
	}{
		0:                {refusal.CauseWaking, 1},
		11 * time.Second: {refusal.CauseWaking, 3},
		61 * time.Second: {refusal.CauseWakeTimeout, 30},
	} {
		if e := wakingPage(took, time.Minute); e.Cause != want.cause || e.Refresh() != want.seconds || e.Code != http.StatusServiceUnavailable {
			t.Errorf("after %s: %s, again after %d s", took, e.Cause, e.Refresh())
		}
	}
}
