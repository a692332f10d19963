// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// applyOptions are the flags of sandbar apply.
type applyOptions struct {
	output
	files  []string
	force  bool
	dryRun dryRun
}

func newApplyCommand(s *target) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make objects as they are in files: create them, or change the fields that differ",
		Long: `Make the objects of files in YAML or JSON as they are there, by server-side apply: an object that is not there
is created, and of one that is there the fields of the file are set. A field that was applied before and that the
file does not have any more is taken away.

A field that another program has set to another value is refused with the program's name, and taken over with
--force-conflicts. A metadata.resourceVersion in the file is a precondition. A field that the kind does not have is
refused.`,
		Example: `  sandbar apply -f sandbox.yaml
  sandbar get sandbox web -o yaml | sed s/node-20/node-22/ | sandbar apply -f - --dry-run`,
		Args: cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.apply(cmd, &o) },
	}
	fs := cmd.Flags()
	o.addChangeFlags(fs)
	fs.StringArrayVarP(&o.files, "filename", "f", nil, "file with objects in YAML or JSON; - reads the input; can be repeated")
	fs.BoolVar(&o.force, "force-conflicts", false, "take over fields that other programs have set")
	o.dryRun.addFlag(fs)
	return cmd
}

func (s *target) apply(cmd *cobra.Command, o *applyOptions) error {
	p, err := o.changePrinter()
	if err != nil {
		return err
	}
	all, err := readFiles(cmd, o.files)
	if err != nil {
		return err
	}
	return s.eachObject(cmd, all, func(w *cli.WorkspaceObjects, obj *unstructured.Unstructured) error {
		return showDiff(cmd.OutOrStdout(), o.format, o.applyOne(cmd, w, obj, p))
	})
}

// readFiles reads the objects of the files of -f, and refuses one whose name cannot be.
func readFiles(cmd *cobra.Command, files []string) ([]*unstructured.Unstructured, error) {
	if len(files) == 0 {
		return nil, &cli.UsageError{Err: fmt.Errorf("%s takes -f FILE; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		some, err := readObjects(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		for _, obj := range some {
			if err := object.CheckName(obj.GetName()); err != nil {
				return nil, fmt.Errorf("-f %s: %w", file, err)
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

// eachObject finds the kind of each object in the workspace, and ends with the first error.
func (s *target) eachObject(cmd *cobra.Command, all []*unstructured.Unstructured, do func(*cli.WorkspaceObjects, *unstructured.Unstructured) error) error {
	kinds := map[string]*cli.WorkspaceObjects{}
	for _, obj := range all {
		word := kindArgument(obj)
		if kinds[word] == nil {
			w, err := s.ObjectsOf(cmd.Context(), cmd, word)
			if err != nil {
				return err
			}
			kinds[word] = w
		}
		s.Name = obj.GetName()
		if err := do(kinds[word], obj); err != nil {
			return err
		}
	}
	return nil
}

func (o *applyOptions) applyOne(cmd *cobra.Command, w *cli.WorkspaceObjects, obj *unstructured.Unstructured, p *writePrinter) error {
	namespace, err := namespaceOf(cmd, w, obj)
	if err != nil {
		return err
	}
	applied, outcome, err := w.Apply(cmd.Context(), w.Of, namespace, obj, o.force, object.WriteOptions{DryRun: bool(o.dryRun)})
	if err != nil {
		return err
	}
	return p.wrote(cmd.OutOrStdout(), w, applied, string(outcome), bool(o.dryRun) && outcome != object.Unchanged)
}

// namespaceOf is the namespace of an object of a file, or that of the call if the file does not say it.
func namespaceOf(cmd *cobra.Command, w *cli.WorkspaceObjects, obj *unstructured.Unstructured) (string, error) {
	has := obj.GetNamespace()
	switch {
	case has == "" || has == w.Namespace:
		return w.Namespace, nil
	case cmd.Flags().Changed("namespace"):
		return "", &cli.UsageError{Err: fmt.Errorf("the object is of namespace %s, and -n says %s", termsafe.Line(has), w.Namespace)}
	}
	return has, nil
}
