// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// deleteOptions are the flags of sandbar delete.
type deleteOptions struct {
	Selection
	output         string
	all            bool
	ignoreNotFound bool
	version        string
	dryRun         dryRun
	wait           bool
	timeout        time.Duration
}

func newDeleteCommand(s *target) *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete KIND NAME…",
		Short: "Delete objects, with all that they have on the runtime cluster; returns when they are gone",
		Long: `Delete the objects that are named, or those that -l or --all selects. Deleting an instance deletes its pods
and its volumes; sandbar suspend keeps the volumes.

Only the object that was read is deleted, and not another one that was created under its name meanwhile.
--resource-version deletes it only in that version. --wait=false returns at once; otherwise the command returns
when the objects are gone, and exits with 1 if they are still there after --timeout.`,
		Example: `  sandbar delete sandbox web
  sandbar delete sandboxes -l env=test
  sandbar delete sandbox web --resource-version 4711`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.delete(cmd, args, &o) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs)
	fs.BoolVar(&o.all, "all", false, "delete all objects of the kind in the namespace")
	fs.BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "succeed if an object is not there")
	fs.StringVar(&o.version, "resource-version", "", "delete the object only if it has this version")
	fs.StringVarP(&o.output, "output", "o", "", "name prints KIND/NAME of each object alone; diff prints, of an object that has changed meanwhile, what has changed, by which program and when")
	o.dryRun.addFlag(fs)
	fs.BoolVar(&o.wait, "wait", true, "wait until the objects are gone")
	fs.DurationVar(&o.timeout, "timeout", waitTimeout, "how long to wait at most for each object")
	return cmd
}

func (o *deleteOptions) check(a cli.ObjectArgs) error {
	if err := o.Selection.Check(a.Names); err != nil {
		return err
	}
	selects := o.Labels != "" || o.Fields != ""
	switch {
	case len(a.Names) == 0 && !selects && !o.all:
		return &cli.UsageError{Err: errors.New("delete takes the names of objects, a selector (-l), or --all, for example: sandbar delete sandbox web")}
	case o.all && (len(a.Names) > 0 || selects):
		return &cli.UsageError{Err: errors.New("--all means every object: leave it out, or the names and the selector")}
	case o.version != "" && len(a.Names) != 1:
		return &cli.UsageError{Err: errors.New("--resource-version is the version of one object: name it")}
	case o.output != "" && o.output != "name" && o.output != diffFormat:
		return &cli.UsageError{Err: fmt.Errorf("-o %q: delete prints name or diff, or a sentence for each object without -o", o.output)}
	}
	return checkTimeout(o.timeout)
}

func (s *target) delete(cmd *cobra.Command, args []string, o *deleteOptions) error {
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
	meant, err := o.find(cmd, s, w, a.Names)
	if err != nil {
		return err
	}
	// All of them are on their way before one is waited for.
	for _, obj := range meant {
		s.Name = obj.GetName()
		err := w.Delete(cmd.Context(), w.Of, obj, object.WriteOptions{DryRun: bool(o.dryRun), Version: o.version})
		if err != nil && (!apierrors.IsNotFound(err) || len(a.Names) > 0 && !o.ignoreNotFound) {
			return showDiff(cmd.OutOrStdout(), o.output, err)
		}
		if err := o.tell(cmd, w, obj); err != nil {
			return err
		}
	}
	if !o.wait || bool(o.dryRun) {
		return nil
	}
	for _, obj := range meant {
		s.Name = obj.GetName()
		if err := w.AwaitGone(cmd.Context(), w.Of, obj.GetNamespace(), obj.GetName(), obj.GetUID(), o.timeout); err != nil {
			return longer(err, obj, o.timeout)
		}
	}
	return nil
}

// find reads the objects that are meant.
func (o *deleteOptions) find(cmd *cobra.Command, s *target, w *cli.WorkspaceObjects, names []string) ([]*unstructured.Unstructured, error) {
	var meant []*unstructured.Unstructured
	for _, name := range names {
		s.Name = name
		list, err := w.Get(cmd.Context(), w.Of, w.Namespace, name, false)
		if apierrors.IsNotFound(err) && o.ignoreNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		meant = append(meant, list.Items[0].Unstructured)
	}
	if len(names) > 0 {
		return meant, nil
	}
	list, err := w.List(cmd.Context(), w.Of, o.Options(w.Namespace))
	if err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		meant = append(meant, item.Unstructured)
	}
	if len(meant) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), o.nothing(w))
	}
	return meant, nil
}

func (o *deleteOptions) tell(cmd *cobra.Command, w *cli.WorkspaceObjects, obj *unstructured.Unstructured) error {
	if o.output == "name" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", w.Of, obj.GetName())
		return err
	}
	return (&writePrinter{}).wrote(cmd.OutOrStdout(), w, obj, "deleted", bool(o.dryRun))
}
