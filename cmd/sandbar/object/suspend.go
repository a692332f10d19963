// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// suspendTimeout is how long suspend and resume wait if --timeout does not say otherwise.
const suspendTimeout = 5 * time.Minute

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
		Use:   verb + " [KIND/]NAME",
		Short: short,
		Long:  long + "\n\n--wait=false returns at once. It exits with 1 if the sandbox has not come there within --timeout.",
		Args:  cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return &cli.UsageError{Err: fmt.Errorf("--timeout %s leaves no time to wait", timeout)}
			}
			if output != "" && output != diffFormat {
				return &cli.UsageError{Err: fmt.Errorf("-o %q: %s prints diff, or a sentence without -o", output, verb)}
			}
			var k cli.Kind
			var obj *unstructured.Unstructured
			var changed bool
			err := s.WithKindOf(cmd.Context(), args[0], func(object.Kind) (err error) {
				if k, err = s.Kind(); err == nil {
					obj, changed, err = SetSuspended(cmd.Context(), k, s.Name, suspended, version)
				}
				return err
			})
			if err != nil {
				return showDiff(cmd.OutOrStdout(), output, err)
			}
			state := ""
			if wait {
				if state, err = awaitSuspension(cmd.Context(), k, obj, suspended, timeout); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s.\n", args[0], OutcomeOf(suspended, changed, state))
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it is so")
	cmd.Flags().StringVar(&version, "resource-version", "", "change the sandbox only if it has this version")
	cmd.Flags().StringVarP(&output, "output", "o", "", diffUsage)
	cmd.Flags().DurationVar(&timeout, "timeout", suspendTimeout, "how long to wait at most")
	return cmd
}

// OutcomeOf says what a command has done, and in which state the sandbox is that was waited for.
func OutcomeOf(suspended, changed bool, state string) string {
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
	case strings.HasPrefix(state, string(sandbarv1alpha1.InstanceDegraded)):
		return did + ", and is " + state
	}
	return did + ", and is Ready"
}

// SetSuspended sets spec.suspended of an instance, and returns it with whether that has changed it. If a version is named, the
// instance has to have it.
func SetSuspended(ctx context.Context, k cli.Kind, name string, suspended bool, version string) (obj *unstructured.Unstructured, changed bool, err error) {
	c, err := object.New(k.Config)
	if err != nil {
		return nil, false, err
	}
	return c.SetSuspended(ctx, ofObjects(k), k.Namespace, name, suspended, version)
}

// ofObjects is the kind as package object has it.
func ofObjects(k cli.Kind) object.Kind { return object.Kind{Resource: k.Resource, Namespaced: true} }

// awaitSuspension waits until an instance that was read is suspended, or awake, and returns its state.
func awaitSuspension(ctx context.Context, k cli.Kind, obj *unstructured.Unstructured, suspended bool, timeout time.Duration) (string, error) {
	wanted := object.Suspension(suspended)
	reached, err := wanted.Reached(obj)
	if reached || err != nil {
		return object.StateOf(obj), err
	}
	c, err := object.New(k.Config)
	if err != nil {
		return "", err
	}
	last := obj
	err = c.Await(ctx, ofObjects(k), k.Namespace, obj.GetName(), timeout, func(now *unstructured.Unstructured) (bool, error) {
		if now == nil || now.GetUID() != obj.GetUID() {
			return false, fmt.Errorf("the %s %s was deleted meanwhile", obj.GetKind(), obj.GetName())
		}
		last = now
		return wanted.Reached(now)
	})
	if err != nil {
		return "", longer(err, last, timeout)
	}
	return object.StateOf(last), nil
}
