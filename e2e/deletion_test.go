// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestDeletingMeansGone is promise 5: whatever a tenant deletes, nothing is left on the runtime
// cluster, and a name that is used again never leads to what had it before.
func TestDeletingMeansGone(t *testing.T) {
	calm(t)
	t.Run("the workspace", func(t *testing.T) {
		t.Parallel()
		tn := newTenant(t, "bob")
		box := tn.runner("web")
		box.waitReady()
		root := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin("root"))
		if err := root.Resource(workspaces).Delete(t.Context(), tn.workspace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitGone(t, box.id)
	})
	t.Run("a name used again while the old instance ends", func(t *testing.T) {
		t.Parallel()
		usedAgain(t)
	})
}

// TestDeletingAnInstanceOrABindingMeansGone: nothing is left of them either.
func TestDeletingAnInstanceOrABindingMeansGone(t *testing.T) {
	long(t, "TestWhatGoesEndsStreamsAtOnce has most of its promise")
	calm(t)
	t.Run("the instance", func(t *testing.T) {
		tn := newTenant(t, "alice")
		box := tn.runner("web")
		box.waitReady()
		box.delete()
		waitGone(t, box.id)
		eventually(t, "the object is gone", func() error {
			_, err := box.get()
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is still there: %w", err)
		})
	})
	t.Run("an instance that never became Ready", func(t *testing.T) {
		tn := newTenant(t, "alice")
		box := tn.runner("web")
		box.delete()
		waitGone(t, box.id)
	})
	t.Run("the APIBinding", func(t *testing.T) {
		tn := newTenant(t, "bob")
		boxes := []*instance{tn.runner("one"), tn.runner("two")}
		for _, b := range boxes {
			b.waitReady()
		}
		if err := tn.dyn.Resource(apibindings).Delete(t.Context(), "sandbar.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, b := range boxes {
			waitGone(t, b.id)
		}
		eventually(t, "the binding is gone", func() error {
			_, err := tn.dyn.Resource(apibindings).Get(t.Context(), "sandbar.dev", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is still there: %w", err)
		})
	})
}

// keptFor is how long the data plane keeps an answer of kcp.
const keptFor = 10 * time.Second

// usedAgain strips the finalizer, as a tenant's admin can, so that the name is free while the
// old placement still runs. The data plane leads to the old one no longer than it keeps kcp's answer, even if
// the controllers are late to end it (docs/security.md, "Not yet").
func usedAgain(t *testing.T) {
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	old := tn.runner("web")
	old.waitReady()
	old.deploy(c, "old")

	// The name is asked all the time; what kcp said before it was created again is soon forgotten.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var forgotten atomic.Bool
	wrong := make(chan string, 1)
	done := make(chan struct{})
	// Not faster than a caller may (workspaceRate), or the calls below are refused.
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			<-pace.C
			after := forgotten.Load()
			body, err := c.probe(ctx, old.base()+"/proxy/version")
			if after && err == nil && strings.Contains(body, "old") {
				wrong <- body
				return
			}
		}
	}()
	old.delete()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	_, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "the name is free", func() error {
		if _, err := old.get(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
	fresh := tn.runner("web")
	time.AfterFunc(keptFor, func() { forgotten.Store(true) })
	fresh.waitReady()
	if fresh.id == old.id {
		t.Fatal("the new instance has the old one's identity")
	}
	fresh.deploy(callAs(t, tn.token), "new")
	eventually(t, "the name leads to the new instance", func() error {
		body, err := c.probe(t.Context(), fresh.base()+"/proxy/version")
		if err == nil && (!forgotten.Load() || !strings.Contains(body, "new")) {
			err = fmt.Errorf("it says %s", body)
		}
		return err
	})
	cancel()
	<-done
	select {
	case body := <-wrong:
		t.Errorf("after kcp's answer was forgotten the name led to the old instance: %s", body)
	default:
	}
	waitGone(t, old.id)
}
