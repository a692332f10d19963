// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// markOptions are the flags of sandbar label and sandbar annotate.
type markOptions struct {
	Selection
	output
	all       bool
	overwrite bool
	version   string
	dryRun    dryRun

	of object.PairKind
}

func newLabelCommand(s *target) *cobra.Command {
	return s.marking("label", object.Labels, `Set labels of objects, or take them away: KEY- takes KEY away. Selectors (-l) choose objects by their labels.
A label that has another value already is changed with --overwrite only.`,
		`  sandbar label sandbox web env=prod tier-
  sandbar label sandboxes --all -l env=test team=shop
  sandbar label sandbox web env=prod --overwrite --resource-version 4711`)
}

func newAnnotateCommand(s *target) *cobra.Command {
	return s.marking("annotate", object.Annotations, `Set annotations of objects, or take them away: KEY- takes KEY away. An annotation is a note of any text;
selectors choose objects by labels, and not by annotations. One that has another value already is changed with
--overwrite only.`,
		`  sandbar annotate sandbox web example.com/ticket='OPS-7: asked for by Kim'
  sandbar annotate sandbox web example.com/ticket-`)
}

// marking is the command that changes labels or annotations.
func (s *target) marking(verb string, of object.PairKind, long, example string) *cobra.Command {
	o := markOptions{of: of}
	cmd := &cobra.Command{
		Use:     verb + " KIND NAME… KEY=VALUE… KEY-…",
		Short:   fmt.Sprintf("Set or take away %s of objects", of.Field()),
		Long:    long + "\n\n--resource-version changes the object only if it has that version; with -o diff, the three-way difference is printed\nif it has another.",
		Example: example,
		RunE:    func(cmd *cobra.Command, args []string) error { return s.mark(cmd, args, &o) },
	}
	fs := cmd.Flags()
	o.Selection.AddFlags(fs)
	o.addChangeFlags(fs)
	fs.BoolVar(&o.all, "all", false, "all objects of the kind in the namespace, or those that -l selects")
	fs.BoolVar(&o.overwrite, "overwrite", false, fmt.Sprintf("change %s that have another value", of.Field()))
	fs.StringVar(&o.version, "resource-version", "", "change the object only if it has this version")
	o.dryRun.addFlag(fs)
	return cmd
}

// isPair reports whether an argument is KEY=VALUE or KEY-, and not a kind or a name.
func isPair(arg string) bool { return strings.Contains(arg, "=") || strings.HasSuffix(arg, "-") }

func (o *markOptions) check(a cli.ObjectArgs, pairs object.Pairs) error {
	if err := o.Selection.Check(a.Names); err != nil {
		return err
	}
	selects := o.Labels != "" || o.Fields != ""
	switch {
	case pairs.Empty():
		return &cli.UsageError{Err: fmt.Errorf("name the %s to set (KEY=VALUE) or to take away (KEY-)", o.of.Field())}
	case len(a.Names) == 0 && !selects && !o.all:
		return &cli.UsageError{Err: errors.New("name objects, or choose them with a selector (-l) or --all")}
	case o.all && len(a.Names) > 0:
		return &cli.UsageError{Err: errors.New("--all means every object: leave it out, or the names")}
	case o.version != "" && len(a.Names) != 1:
		return &cli.UsageError{Err: errors.New("--resource-version is the version of one object: name it")}
	}
	return nil
}

func (s *target) mark(cmd *cobra.Command, args []string, o *markOptions) error {
	first := slices.IndexFunc(args, isPair)
	if first < 0 {
		first = len(args)
	}
	a, err := cli.ParseObjectArgs(cmd, args[:first])
	if err != nil {
		return err
	}
	pairs, err := parsePairs(o.of.Noun, o.of, args[first:], true)
	if err != nil {
		return err
	}
	if err := o.check(a, pairs); err != nil {
		return err
	}
	p, err := o.changePrinter()
	if err != nil {
		return err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	meant := inNamespace(a, w.Namespace)
	if len(meant) == 0 {
		if meant, err = o.find(cmd, w); err != nil {
			return err
		}
	}
	for _, one := range meant {
		s.Name = one.name
		obj, changed, err := w.Mark(cmd.Context(), w.Of, one.namespace, one.name, o.of, pairs, o.overwrite, object.WriteOptions{DryRun: bool(o.dryRun), Version: o.version})
		if err != nil {
			return showDiff(cmd.OutOrStdout(), o.format, err)
		}
		did := map[string]string{"label": "labeled", "annotation": "annotated"}[o.of.Noun]
		if !changed {
			did = "unchanged: it has these " + o.of.Field() + " already"
		}
		if err := p.wrote(cmd.OutOrStdout(), w, obj, did, bool(o.dryRun) && changed); err != nil {
			return err
		}
	}
	return nil
}

// objectName names an object of a kind.
type objectName struct{ namespace, name string }

func inNamespace(a cli.ObjectArgs, namespace string) []objectName {
	var all []objectName
	for _, name := range a.Names {
		all = append(all, objectName{namespace, name})
	}
	return all
}

// find lists the objects that the selectors choose.
func (o *markOptions) find(cmd *cobra.Command, w *cli.WorkspaceObjects) ([]objectName, error) {
	list, err := w.List(cmd.Context(), w.Of, o.Options(w.Namespace))
	if err != nil {
		return nil, err
	}
	var all []objectName
	for _, item := range list.Items {
		all = append(all, objectName{item.GetNamespace(), item.GetName()})
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), o.nothing(w))
	}
	return all, nil
}
