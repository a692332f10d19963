// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// updateOptions are the flags of sandbar update.
type updateOptions struct {
	output
	files   []string
	version string
	force   bool
	dryRun  dryRun
}

func newUpdateCommand(s *target) *cobra.Command {
	var o updateOptions
	cmd := &cobra.Command{
		Use:   "update -f FILE",
		Short: "Replace objects by those in files, if they have the version that you have read",
		Long: `Replace objects that exist by those of files in YAML or JSON, as a whole: a field that the file does not have is taken
away. The status is not replaced. sandbar apply changes the fields of a file alone, and creates objects.

The version that you have read is in the file (metadata.resourceVersion, as sandbar get -o yaml prints it) or in
--resource-version. An object that has another one is not changed: the error names what has changed, by which program
and when, and -o diff prints the three-way difference. --force-conflicts replaces the object in any version. A field
that the kind does not have is refused.`,
		Example: `  sandbar get sandbox web -o yaml > web.yaml     # edit it, and then
  sandbar update -f web.yaml
  sandbar update -f web.yaml --resource-version 4711 -o diff`,
		Args: cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.update(cmd, &o) },
	}
	fs := cmd.Flags()
	o.addChangeFlags(fs)
	fs.StringArrayVarP(&o.files, "filename", "f", nil, "file with objects in YAML or JSON; - reads the input; can be repeated")
	fs.StringVar(&o.version, "resource-version", "", "replace the object only if it has this version, instead of that in the file")
	fs.BoolVar(&o.force, "force-conflicts", false, "replace the object also if it has changed")
	o.dryRun.addFlag(fs)
	return cmd
}

func (s *target) update(cmd *cobra.Command, o *updateOptions) error {
	p, err := o.changePrinter()
	if err != nil {
		return err
	}
	all, err := readFiles(cmd, o.files)
	if err != nil {
		return err
	}
	if err := o.check(all); err != nil {
		return err
	}
	return s.eachObject(cmd, all, func(w *cli.WorkspaceObjects, obj *unstructured.Unstructured) error {
		namespace, err := namespaceOf(cmd, w, obj)
		if err != nil {
			return err
		}
		updated, outcome, err := w.Update(cmd.Context(), w.Of, namespace, obj, o.force, object.WriteOptions{DryRun: bool(o.dryRun), Version: o.version})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is no %s %s to update: sandbar apply -f creates it", w.Of.Name, termsafe.Line(obj.GetName()))
		}
		if err != nil {
			return &cli.ForcibleError{Err: showDiff(cmd.OutOrStdout(), o.format, err)}
		}
		return p.wrote(cmd.OutOrStdout(), w, updated, string(outcome), bool(o.dryRun))
	})
}

// check refuses a call that says of no version, or of two, that it is the one to replace.
func (o *updateOptions) check(all []*unstructured.Unstructured) error {
	switch {
	case o.force && o.version != "":
		return &cli.UsageError{Err: errors.New("--force-conflicts means any version: leave it out, or --resource-version")}
	case o.version != "" && len(all) != 1:
		return &cli.UsageError{Err: fmt.Errorf("--resource-version is the version of one object, and the files have %d", len(all))}
	case o.force || o.version != "":
		return nil
	}
	for _, obj := range all {
		if obj.GetResourceVersion() == "" {
			return &cli.UsageError{Err: fmt.Errorf("the file does not say which version of %s it replaces: read the object with sandbar get -o yaml, "+
				"which has it as metadata.resourceVersion, or add --resource-version, or --force-conflicts for any version", termsafe.Line(obj.GetName()))}
		}
	}
	return nil
}
