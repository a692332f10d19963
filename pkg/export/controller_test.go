// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/export/exporttest"
)

// newTestController sends the keys that it reconciles.
func newTestController(t *testing.T) (c *Controller, reconciled <-chan Key) {
	t.Helper()
	keys := make(chan Key, 10)
	c, err := NewController(thing, ControllerOptions{Name: "thing", Concurrency: 2, Config: &rest.Config{}, Log: logr.Discard()},
		func(*Controller) reconcile.TypedReconciler[Key] {
			return reconcile.TypedFunc[Key](func(_ context.Context, key Key) (reconcile.Result, error) {
				keys <- key
				return reconcile.Result{}, nil
			})
		})
	if err != nil {
		t.Fatal(err)
	}
	return c, keys
}

func TestAControllerReconcilesFromItsStartToItsClose(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	shard := exporttest.NewShard(t, "one")
	c, reconciled := newTestController(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.Start(ctx)
	cancel() // it ends with Close and not before
	if err := c.Objects.Follow([]string{shard.URL}); err != nil {
		t.Fatal(err)
	}
	if key := <-reconciled; key != web {
		t.Errorf("the watch woke %v", key)
	}
	unseen := web
	unseen.Name = "unseen"
	c.Wake(unseen, true)
	if key := <-reconciled; key != unseen {
		t.Errorf("woke %v", key)
	}
	c.WakeAll()
	if key := <-reconciled; key != web {
		t.Errorf("all are %v", key)
	}
	if c.Ended() {
		t.Error("it counts as ended by itself")
	}
	c.Close()
	shard.CloseClientConnections()
	shard.Close()
	// client-go's watch of metadata leaves a goroutine behind when it is stopped with an event in hand.
	goleak.VerifyNone(t, leaks, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

func TestAControllerThatNeverStartedLeavesNothingRunning(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	c, _ := newTestController(t)
	c.Close()
	goleak.VerifyNone(t, leaks)
}
