// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestServersRestart is promise 8: two kcp restarts and one restart of the runtime's API
// server; everything recovers by itself, and nothing that ran has stopped.
func TestServersRestart(t *testing.T) {
	breaks(t)
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

// kcpAway is longer than a leader that renews its Lease as Kubernetes' own components do can bear.
const kcpAway = 40 * time.Second

// TestKcpIsAwayForLong: a kcp that answers nothing ends neither the data plane nor the controllers, nor
// what tenants have open. Once the controllers lost their Lease after 21 seconds, and took the data
// plane along.
func TestKcpIsAwayForLong(t *testing.T) {
	long(t, "it stops kcp for 40 s")
	breaks(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("web")
	box.waitReady()
	box.deploy(c, "steady")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := box.follow(ctx, c)
	socket := openSocket(t, world.URL, box, tn.token)

	resume, err := world.Stack.Pause(t.Context(), "kcp")
	if err != nil {
		t.Fatal(err)
	}
	away := time.NewTimer(kcpAway)
	defer away.Stop()
	for ended := false; !ended; {
		select {
		case _, open := <-lines:
			if !open {
				ended = true
				t.Error("the log ended while kcp was away")
			}
		case <-away.C:
			ended = true
		}
	}
	if err := socket.WriteMessage(websocket.TextMessage, []byte("still there?")); err != nil {
		t.Errorf("the WebSocket: %v", err)
	} else if _, _, err := socket.ReadMessage(); err != nil {
		t.Errorf("the WebSocket: %v", err)
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	box.waitAnswer(c, "steady")
	fresh := tn.runner("after")
	fresh.waitReady()
}
