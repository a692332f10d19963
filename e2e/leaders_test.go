// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"testing"
)

// TestControllersTakeOverFromOneAnother: of two processes of controllers one acts. When it is killed the other
// takes over and finishes what was begun, and what was running goes on.
func TestControllersTakeOverFromOneAnother(t *testing.T) {
	long(t, "a leader's Lease lasts for a minute")
	breaks(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	if err := world.Kill(); err != nil { // it has controllers of its own, which take no Lease
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("starting the provider again: %v", err)
		}
	})
	first, err := world.StartControllers(t.Context(), "controllers-a")
	if err != nil {
		t.Fatal(err)
	}
	replica := startReplica(t, "replica")
	c := by(callAs(t, tn.token), replica)
	box.deploy(c, "led")
	tn.runner("by-the-first").waitReady()
	second, err := world.StartControllers(t.Context(), "controllers-b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Errorf("stopping the second controllers: %v", err)
		}
	})
	before := box.version(c).PID
	begun := tn.runner("begun")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	begun.waitReady()
	tn.runner("by-the-second").waitReady()
	if after := box.version(c).PID; after != before {
		t.Errorf("the sandbox's process was %d and is %d", before, after)
	}
	c.want(http.StatusOK, http.MethodGet, box.base()+"/status", nil)
}
