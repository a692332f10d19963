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

// TestServersRestart is promise 8: kcp restarts; everything recovers by itself, and nothing that ran
// has stopped.
func TestServersRestart(t *testing.T) {
	breaks(t)
	restartServers(t, "kcp")
}

// TestServersRestartAgain is promise 8 whole: two restarts of kcp and one of the runtime's API server.
func TestServersRestartAgain(t *testing.T) {
	long(t, "TestServersRestart has most of its promise")
	breaks(t)
	restartServers(t, "kcp", "kcp", "kube-apiserver")
}

func restartServers(t *testing.T, parts ...string) {
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("web")
	box.waitReady()
	box.deploy(c, "steady")
	before := box.version(c).PID
	for i, part := range parts {
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

// kcpAway is longer than a stream goes on without a look at its caller's right.
const kcpAway = 40 * time.Second

// TestKcpIsAwayForLong: a kcp that answers nothing ends neither the data plane nor the controllers, nor
// what tenants have open: their streams are looked at meanwhile, and kcp says nothing.
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
