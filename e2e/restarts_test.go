// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"
)

// TestServersRestart is promise 8: two kcp restarts and one restart of the runtime's API
// server; everything recovers by itself, and nothing that ran has stopped.
func TestServersRestart(t *testing.T) {
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("web")
	box.waitReady()
	box.deploy(c, "steady")
	before := box.version(c).PID
	for i, part := range []string{"kcp", "kcp", "kube-apiserver"} {
		if err := world.Stack.Restart(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		box.waitAnswer(c, "steady")
		if after := box.version(c).PID; after != before {
			t.Errorf("after the restart of %s the sandbox's process is %d, was %d", part, after, before)
		}
		// What is made and deleted afterwards is noticed: the watches are alive again.
		fresh := tn.runner("after-" + string(rune('a'+i)))
		fresh.waitReady()
		fresh.delete()
		waitGone(t, fresh.id)
	}
}
