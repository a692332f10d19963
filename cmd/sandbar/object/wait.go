// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// waitOptions are the flags of sandbar wait.
type waitOptions struct {
	until   string
	timeout time.Duration

	// condition is what the flag says, unless gone is set: wait for the deletion.
	condition object.Condition
	gone      bool
}

func newWaitCommand(s *target) *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait KIND NAME…",
		Short: "Wait until objects are Ready, have another condition, or are gone",
		Long: `Wait until each object that is named has a condition: Ready, or the one of --for. --for delete waits until the
objects are gone. Each state goes to stderr meanwhile. It exits with 1 when an object fails, or is not there within
--timeout, which counts for all objects together.`,
		Example: `  sandbar wait sandbox web
  sandbar wait sandbox web --for Suspended
  sandbar wait sandbox web --for Ready=False --timeout 30s
  sandbar wait sandboxes web api --for delete`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.wait(cmd, args, &o) },
	}
	cmd.Flags().StringVar(&o.until, "for", sandbarv1alpha1.InstanceReadyCondition, "the condition, as TYPE or TYPE=STATUS, or delete")
	cmd.Flags().DurationVar(&o.timeout, "timeout", waitTimeout, "how long to wait at most")
	return cmd
}

func (o *waitOptions) check(a cli.ObjectArgs) (err error) {
	if len(a.Names) == 0 {
		return &cli.UsageError{Err: errors.New("wait takes a KIND and names, for example: sandbar wait sandbox web")}
	}
	if o.gone = o.until == "delete"; !o.gone {
		// kubectl's form is taken too.
		if o.condition, err = parseCondition(strings.TrimPrefix(o.until, "condition=")); err != nil {
			return err
		}
	}
	return checkTimeout(o.timeout)
}

func (s *target) wait(cmd *cobra.Command, args []string, o *waitOptions) error {
	a, err := cli.ParseObjectArgs(cmd, args)
	if err != nil {
		return err
	}
	if err := o.check(a); err != nil {
		return err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	end := time.Now().Add(o.timeout)
	for _, name := range a.Names {
		s.Name = name
		if err := o.waitFor(cmd, w, name, time.Until(end)); err != nil {
			return err
		}
	}
	return nil
}

// waitFor waits for one object.
func (o *waitOptions) waitFor(cmd *cobra.Command, w *cli.WorkspaceObjects, name string, left time.Duration) error {
	list, err := w.Get(cmd.Context(), w.Of, w.Namespace, name, false)
	if o.gone {
		return o.waitGone(cmd, w, name, list, err, left)
	}
	if err != nil {
		return err
	}
	obj, err := await(cmd, w, list.Items[0].Unstructured, o.condition, left)
	if err != nil {
		return longer(err, obj, o.timeout)
	}
	return (&writePrinter{}).wrote(cmd.OutOrStdout(), w, obj, fmt.Sprintf("has the condition %s=%s", o.condition.Type, o.condition.Status), false)
}

// waitGone waits until an object that was read is gone.
func (o *waitOptions) waitGone(cmd *cobra.Command, w *cli.WorkspaceObjects, name string, list *object.List, err error, left time.Duration) error {
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	default:
		obj := list.Items[0].Unstructured
		if err := w.AwaitGone(cmd.Context(), w.Of, w.Namespace, name, obj.GetUID(), left); err != nil {
			return longer(err, obj, o.timeout)
		}
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s/%s is gone\n", w.Of, name); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// longer adds to a wait that took too long how to wait longer, and the state that the object had before if none was
// seen.
func longer(err error, obj *unstructured.Unstructured, timeout time.Duration) error {
	var late *object.TimeoutError
	if !errors.As(err, &late) {
		return err
	}
	late.State, late.After = cmp.Or(late.State, object.StateOf(obj)), timeout
	return fmt.Errorf("%w; --timeout gives it longer", late)
}
