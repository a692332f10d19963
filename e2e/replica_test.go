// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
)

// TestReplicaThroughAPIServer: another replica of serve, which cannot dial pods and goes through
// the runtime's API server instead, serves the same instance to the same callers.
func TestReplicaThroughAPIServer(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	first := callAs(t, tn.token)
	box.deploy(first, "replicated")

	replica, err := world.StartReplicaAs(t.Context(), "through-apiserver", "--transport", "apiserver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := replica.Stop(); err != nil {
			t.Errorf("stopping the replica: %v", err)
		}
	})
	c := callAs(t, tn.token)
	c.url = replica.URL
	box.waitAnswer(c, "replicated")
	if a, b := box.version(first).PID, box.version(c).PID; a != b {
		t.Errorf("the replicas reached processes %d and %d", a, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := box.follow(ctx, c)
	mark := "mark-" + randomHex(4)
	first.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/log?text="+mark, nil)
	waitLine(t, lines, mark)
	echo(t, replica.URL, box, tn.token)
	c.want(http.StatusOK, http.MethodPost, box.base()+"/restart", nil)
	eventually(t, "the first replica sees the restarted process", func() error {
		code, body := first.do(http.MethodGet, box.base()+"/proxy/version", nil)
		if code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	stranger := callAs(t, world.Stack.Token("dave"))
	stranger.url = replica.URL
	stranger.wantStatus(http.StatusForbidden, http.MethodGet, box.base()+"/log", nil)
}
