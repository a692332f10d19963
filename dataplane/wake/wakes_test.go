// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
)

// What was seen of one pod says nothing of the next one.
func TestAPodThatTakesTheDeafOnesPlaceHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{Metrics: record.NewMetrics("test")})
		defer k.Stop()
		k.patience = 20 * time.Millisecond
		to := &locate.Target{Namespace: "sb-demo", Service: "preview", Port: "preview"}
		if k.staysDeaf(to) {
			t.Error("an app has no time at all")
		}
		time.Sleep(k.patience)
		if !k.staysDeaf(to) {
			t.Error("its patience does not end")
		}
		k.enter(to.Namespace, time.Minute)
		k.answer(to)
		k.away(to)
		if k.staysDeaf(to) {
			t.Error("the next pod has no time")
		}
		if k.answered(to) {
			t.Error("the next pod is taken for one that accepts connections")
		}
	})
}
