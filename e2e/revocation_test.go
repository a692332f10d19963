// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestWithdrawnRightsEnd is invariant 5: when a right is withdrawn, requests are refused soon
// afterwards and a stream that runs is cut, while those who keep their right notice nothing.
func TestWithdrawnRightsEnd(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	owner := callAs(t, tn.token)
	box.deploy(owner, "hello")

	viewer := tn.role("viewer",
		rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners", "sandboxrunners/log"}, Verbs: []string{"get"}})
	tn.admit(viewer, "carol")
	carol := callAs(t, world.Stack.Token("carol"))
	eventually(t, "carol may read the log", func() error {
		code, body := carol.do(http.MethodGet, box.base()+"/log", nil)
		if code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hers := box.follow(ctx, carol)
	kept := box.follow(ctx, owner)

	admin := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	withdrawn := time.Now()
	if err := admin.RbacV1().ClusterRoles().Delete(t.Context(), viewer.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "carol's requests are refused", func() error {
		if code, body := carol.do(http.MethodGet, box.base()+"/log", nil); code != http.StatusForbidden {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	t.Logf("requests were refused after %v", time.Since(withdrawn).Round(100*time.Millisecond))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hers {
		}
	}()
	select {
	case <-ended:
		t.Logf("the stream was cut after %v", time.Since(withdrawn).Round(100*time.Millisecond))
	case <-time.After(patience()):
		t.Fatalf("the stream of a caller without the right goes on after %v", patience())
	}
	mark := "mark-" + randomHex(4)
	owner.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/log?text="+mark, nil)
	waitLine(t, kept, mark)
}

// TestWhatGoesEndsStreamsAtOnce: a stream does not wait for its next look when the binding or the
// instance behind it goes. The looks are at least 15 s apart; the deadline is below that. The pod ends
// too then, and the stream with it: the audit log says that it was cut.
func TestWhatGoesEndsStreamsAtOnce(t *testing.T) {
	calm(t)
	for name, c := range map[string]struct {
		remove  func(*tenant, *instance)
		reasons []string
	}{
		"the instance": {func(_ *tenant, box *instance) { box.delete() }, []string{"instance_ended"}},
		"the binding": {func(tn *tenant, _ *instance) {
			if err := tn.dyn.Resource(apibindings).Delete(tn.t.Context(), "sandbar.dev", metav1.DeleteOptions{}); err != nil {
				tn.t.Fatal(err)
			}
		}, []string{"authorization_ended", "instance_ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			tn := newTenant(t, "alice")
			box := tn.runner("web")
			box.waitReady()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := callAs(t, tn.token).open(ctx, http.MethodGet, box.base()+"/log?follow=true&tail=0", nil)
			began := time.Now()
			c.remove(tn, box)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, stream.Body)
				stream.Body.Close()
			}()
			select {
			case <-ended:
				t.Logf("the stream was cut after %v", time.Since(began).Round(time.Millisecond))
			case <-time.After(patience()):
				t.Fatal("the stream goes on")
			}
			events := auditEvents(t, stream.Header.Get("Audit-Id"), 2)
			if end := events[len(events)-1]; end.Code != http.StatusOK || !slices.Contains(c.reasons, end.Reason) {
				t.Errorf("it was not cut: %+v", end)
			}
			waitGone(t, box.id)
		})
	}
}
