// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// suspendTimeout is how long suspend and resume wait if --timeout does not say otherwise.
const suspendTimeout = 5 * time.Minute

// suspendEvery is how often an instance that is waited for is read.
const suspendEvery = 500 * time.Millisecond

func newSuspendCommand(s *target) *cobra.Command {
	return s.suspension("suspend", "Suspend a sandbox: its pods go, its volumes stay; returns when it is suspended",
		`Suspend a sandbox: its pods and their processes end, and its volumes stay. sandbar resume NAME brings it
back, and so does sandbar dev NAME --create. It sets the instance's spec.suspended, and changes nothing if that is set already.`, true)
}

func newResumeCommand(s *target) *cobra.Command {
	return s.suspension("resume", "Resume a suspended sandbox; returns when it is Ready",
		`Resume a sandbox that was suspended with sandbar suspend or its spec.suspended. It changes nothing if the
sandbox is not suspended. One whose shutdown time has passed needs a later one: sandbar renew NAME --extend 2h.`, false)
}

// suspension is the command that sets spec.suspended to a value.
func (s *target) suspension(verb, short, long string, suspended bool) *cobra.Command {
	var wait bool
	var version, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Long:  long + "\n\n--wait=false returns at once. It exits with 1 if the sandbox has not come there within --timeout.",
		Args:  named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return &usageError{fmt.Errorf("--timeout %s leaves no time to wait", timeout)}
			}
			if output != "" && output != diffFormat {
				return &usageError{fmt.Errorf("-o %q: %s prints diff, or a sentence without -o", output, verb)}
			}
			k, err := s.kind()
			if err != nil {
				return err
			}
			s.name = args[0]
			changed, err := k.setSuspended(cmd.Context(), args[0], suspended, version)
			if err != nil {
				return showDiff(cmd.OutOrStdout(), output, err)
			}
			state := ""
			if wait {
				if state, err = k.awaitSuspension(cmd.Context(), args[0], suspended, timeout); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s.\n", args[0], outcomeOf(suspended, changed, state))
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it is so")
	cmd.Flags().StringVar(&version, "resource-version", "", "change the sandbox only if it has this version")
	cmd.Flags().StringVarP(&output, "output", "o", "", diffUsage)
	cmd.Flags().DurationVar(&timeout, "timeout", suspendTimeout, "how long to wait at most")
	return cmd
}

// outcomeOf says what a command has done, and in which state the sandbox is that was waited for.
func outcomeOf(suspended, changed bool, state string) string {
	switch {
	case suspended && !changed:
		return "was suspended already"
	case suspended && state != "":
		return "is suspended"
	case suspended:
		return "is being suspended"
	}
	did := "has been resumed"
	switch {
	case !changed:
		did = "was not suspended"
	case state == "":
		did = "is being resumed"
	}
	switch {
	case state == "":
		return did
	case strings.HasPrefix(state, string(sandbarv1alpha1.InstanceSleeping)):
		return did + ", and sleeps until the next request"
	}
	return did + ", and is Ready"
}

// setSuspended sets spec.suspended of an instance, and reports whether it was different. If a version is named, the
// instance has to have it.
func (k kind) setSuspended(ctx context.Context, name string, suspended bool, version string) (changed bool, err error) {
	obj, err := k.instances().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", k.resource.Resource, name, err)
	}
	if now, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); now == suspended && (version == "" || version == obj.GetResourceVersion()) {
		return false, nil
	}
	objects, err := object.New(k.cfg)
	if err != nil {
		return false, err
	}
	obj.SetNamespace(k.namespace)
	same := object.Kind{Resource: k.resource, Name: obj.GetKind(), Namespaced: true}
	obj, err = objects.Patch(ctx, same, obj, map[string]any{"spec": map[string]any{"suspended": suspended}}, object.WriteOptions{Version: version, DropUnknown: true})
	if err != nil {
		return false, err
	}
	// A field that the kind does not have is dropped without an error.
	if now, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); now != suspended {
		return false, fmt.Errorf("a %s cannot be suspended: it has no field spec.suspended", obj.GetKind())
	}
	return true, nil
}

// errWaited ends the wait for an instance.
var errWaited = errors.New("the time to wait is over")

// awaitSuspension waits until an instance is suspended, or runs again.
func (k kind) awaitSuspension(ctx context.Context, name string, suspended bool, timeout time.Duration) (string, error) {
	// Not a context with a deadline: client-go's rate limiter refuses a request that it expects to end after it,
	// in words of its own.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(timeout, func() { cancel(errWaited) }).Stop()
	tick := time.NewTicker(suspendEvery)
	defer tick.Stop()
	last := "not read yet"
	for {
		obj, err := k.instances().Get(ctx, name, metav1.GetOptions{})
		if err != nil && errors.Is(context.Cause(ctx), errWaited) {
			return last, fmt.Errorf("%s is still %s after %s; --timeout gives it longer", name, last, timeout)
		}
		if err != nil {
			return last, fmt.Errorf("waiting for %s (%s): %w", name, last, err)
		}
		done, state, err := suspensionReached(obj, suspended)
		if done || err != nil {
			return state, err
		}
		last = state
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errWaited) {
				return last, fmt.Errorf("%s is still %s after %s; --timeout gives it longer", name, last, timeout)
			}
			return last, ctx.Err()
		}
	}
}

// suspensionReached reports whether an instance is as suspended, or as awake, as it should be, and the state.
// The error is for one that will not come there by itself.
func suspensionReached(obj *unstructured.Unstructured, suspended bool) (done bool, state string, err error) {
	var status sandbarv1alpha1.InstanceStatus
	if fields, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return false, "", fmt.Errorf("reading the status of %s: %w", obj.GetName(), err)
		}
	}
	ready := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	state = termsafe.Line(session.StateText(&status))
	if status.ObservedGeneration != obj.GetGeneration() {
		return false, state, nil
	}
	if suspended {
		return status.Phase == sandbarv1alpha1.InstanceSuspended, state, nil
	}
	meant := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceSuspendedCondition)
	switch {
	case meant != nil && meant.Status == metav1.ConditionTrue && meant.Reason == string(sandbarv1alpha1.SuspendedExpired):
		return false, state, fmt.Errorf("the shutdown time of %s has passed: set a later spec.lifecycle.shutdownTime to have it back", obj.GetName())
	case status.Phase == sandbarv1alpha1.InstanceSleeping:
		return true, state, nil // the next request wakes it
	}
	return ready != nil && ready.Status == metav1.ConditionTrue, state, nil
}
