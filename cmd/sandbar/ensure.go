// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// readyEvery is how often an instance that is not ready is looked at.
const readyEvery = 500 * time.Millisecond

type ensureOptions struct {
	create       bool
	dir, command string
	timeout      time.Duration
}

// check refuses what a SandboxRunner would be made for in vain.
func (o ensureOptions) check() error {
	if o.timeout <= 0 {
		return &usageError{fmt.Errorf("--timeout %s leaves no time to wait", o.timeout)}
	}
	dir, err := os.OpenRoot(o.dir)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	_ = dir.Close()
	return nil
}

// ensure makes or resumes a SandboxRunner, and waits until it can be developed.
func (s *session) ensure(ctx context.Context, notes io.Writer, name string, opts ensureOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	cfg, namespace, err := s.workspace()
	if err != nil {
		return err
	}
	resource, err := parseResource(s.resource)
	if err != nil {
		return err
	}
	if resource != client.SandboxRunners {
		return &usageError{fmt.Errorf("--create makes SandboxRunners, and no %s", resource.Resource)}
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client for the workspace: %w", err)
	}
	runners := objects.Resource(resource).Namespace(namespace)
	obj, err := runners.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if obj, err = newRunner(name, opts); err != nil {
			return err
		}
		if _, err := runners.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the SandboxRunner: %w", err)
		}
		say(notes, "the SandboxRunner %s has been created", name)
	case err != nil:
		return fmt.Errorf("reading the SandboxRunner: %w", err)
	default:
		if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); suspended {
			patch := []byte(`{"spec":{"suspended":false}}`)
			if _, err := runners.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("resuming the SandboxRunner: %w", err)
			}
			say(notes, "the SandboxRunner %s is being resumed", name)
		}
	}
	return s.awaitRunner(ctx, notes, runners, name, opts.timeout)
}

func newRunner(name string, opts ensureOptions) (*unstructured.Unstructured, error) {
	dir, err := filepath.Abs(opts.dir)
	if err != nil {
		return nil, fmt.Errorf("naming the project: %w", err)
	}
	spec := map[string]any{"projectRef": filepath.Base(dir)}
	if opts.command != "" {
		spec["startCommand"] = opts.command
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("SandboxRunner"))
	obj.SetName(name)
	return obj, nil
}

// awaitRunner waits until the SandboxRunner is ready, or its runner answers all the same: one
// whose process does not stay up is never ready before somebody brings it other files. It tells
// what it waits for.
func (s *session) awaitRunner(ctx context.Context, notes io.Writer, runners dynamic.ResourceInterface, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	last := ""
	for {
		obj, err := runners.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("waiting for the SandboxRunner (%s): %w", last, err)
		}
		var status sandbarv1alpha1.InstanceStatus
		if fields, ok := obj.Object["status"].(map[string]any); ok {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
				return fmt.Errorf("reading the status of the SandboxRunner: %w", err)
			}
		}
		suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
		ready := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
		current := status.ObservedGeneration == obj.GetGeneration() && !suspended && status.DataPlane != nil && ready != nil
		if current && ready.Status == metav1.ConditionTrue {
			return nil
		}
		now := stateOf(&status, ready)
		if now != last {
			say(notes, "%s is %s", name, now)
			last = now
		}
		if current {
			if answers, err := s.answers(ctx, name); answers || err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the SandboxRunner, which is %s: %w", last, ctx.Err())
		}
	}
}

// stateOf says in words where an instance stands.
func stateOf(status *sandbarv1alpha1.InstanceStatus, ready *metav1.Condition) string {
	state := string(sandbarv1alpha1.InstancePending)
	if status.Phase != "" {
		state = string(status.Phase)
	}
	if ready != nil && ready.Message != "" {
		state += ": " + termsafe.String(ready.Message)
	}
	return state
}

// answers tells whether the runner of an instance takes calls.
func (s *session) answers(ctx context.Context, name string) (bool, error) {
	i, err := s.instance(ctx, name)
	if err != nil {
		return false, err
	}
	if _, err := i.Env(ctx); err != nil {
		if client.Temporary(err) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}
