// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// leaving are the workspaces of tests that have ended. From the end of the run they go at once.
var (
	leaving      sync.WaitGroup
	running, end = context.WithCancel(context.Background())
)

// leave deletes a workspace beside the tests that go on: first its bindings to providers, and the workspace when they
// have gone. Whenever kcp finds something that keeps it from deleting a workspace, it looks through all of it again, which
// takes sixty requests: nine times for a workspace that goes with its instances. That was half of what kcp did in a run.
func leave(name string) {
	leaving.Go(func() {
		bindings := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin("root:" + name)).Resource(apibindings)
		if err := poll(running, patience(), func() error { return unbind(running, bindings) }); err != nil && running.Err() == nil {
			fmt.Fprintf(os.Stderr, "e2e: workspace %s is deleted with its bindings: %v\n", name, err)
		}
		root := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin("root"))
		if err := root.Resource(workspaces).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			fmt.Fprintf(os.Stderr, "e2e: deleting workspace %s: %v\n", name, err)
		}
	})
}

// unbind deletes a workspace's bindings to providers. It is an error while there is one, and none if the workspace has gone.
func unbind(ctx context.Context, bindings dynamic.ResourceInterface) error {
	list, err := bindings.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // both are said of a workspace that is gone
		return nil
	}
	if err != nil {
		return err
	}
	left := 0
	for _, binding := range list.Items {
		if export, _, _ := unstructured.NestedString(binding.Object, "spec", "reference", "export", "name"); export != "sandbar.dev" {
			continue
		}
		left++
		if binding.GetDeletionTimestamp() == nil {
			if err := bindings.Delete(ctx, binding.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	if left > 0 {
		return fmt.Errorf("%d bindings are left", left)
	}
	return nil
}

// left waits until kcp has been told to delete every workspace, the last ones with what they hold.
func left() {
	end()
	leaving.Wait()
}
