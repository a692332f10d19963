// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Selection says which objects of a kind are meant.
type Selection struct {
	// Labels and Fields are the selectors of the flags, and AllNamespaces is their --all-namespaces.
	Labels, Fields string
	AllNamespaces  bool

	// by and at are what the flags say, once they were checked.
	by labels.Selector
	at fields.Selector
}

// AddFlags adds the flags of the selection.
func (s *Selection) AddFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&s.Labels, "selector", "l", "", "only objects with these labels, for example -l 'env=prod,tier in (web, api),!legacy'; at most 10 requirements")
	fs.StringVar(&s.Fields, "field-selector", "", "only objects with these fields: metadata.name and metadata.namespace")
	fs.BoolVarP(&s.AllNamespaces, "all-namespaces", "A", false, "objects of all namespaces of the workspace")
}

// Check reads the flags, before anything is sent.
func (s *Selection) Check(names []string) error {
	var err error
	if s.by, err = object.ParseSelector(s.Labels); err != nil {
		return &cli.UsageError{Err: err}
	}
	if s.at, err = object.ParseFieldSelector(s.Fields); err != nil {
		return &cli.UsageError{Err: err}
	}
	switch {
	case len(names) > 0 && (s.Labels != "" || s.Fields != ""):
		return &cli.UsageError{Err: errors.New("names and selectors do not go together: a selector chooses among all objects")}
	case len(names) > 0 && s.AllNamespaces:
		return &cli.UsageError{Err: errors.New("a name means an object of one namespace: leave --all-namespaces out, or the name")}
	}
	return nil
}

// Options are those of a list of the selected objects.
func (s *Selection) Options(namespace string) object.ListOptions {
	opts := object.ListOptions{Namespace: namespace, Labels: s.by, Fields: s.at, PageSize: object.DefaultPageSize}
	if s.AllNamespaces {
		opts.Namespace = ""
	}
	return opts
}

// nothing says that there are no such objects, in the words of the call.
func (s *Selection) nothing(w *cli.WorkspaceObjects) string {
	text := "No " + w.Of.Resource.Resource
	var by []string
	for _, selector := range []string{s.Labels, s.Fields} {
		if selector != "" {
			by = append(by, selector)
		}
	}
	if len(by) > 0 {
		text += " match " + strings.Join(by, " and ")
	}
	switch {
	case !w.Of.Namespaced:
		return text + " in the workspace."
	case s.AllNamespaces:
		return text + " in any namespace."
	}
	return text + " in namespace " + w.Namespace + "."
}

// getOptions are the flags of sandbar get.
type getOptions struct {
	Selection
	output
	sortBy    string
	chunkSize int64
	limit     int
	watch     bool
	watchOnly bool
}

func newGetCommand(s *target) *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:     "get KIND [NAME…]",
		Aliases: []string{"list", "ls"},
		Short:   "List objects, or show those that are named",
		Long: `List the objects of a kind, or show those that are named. KIND is a resource (sandboxes), its singular or
its short name (sbx); KIND/NAME works too. With a KIND that there is not, the error lists those of the workspace.

Of an instance the table has the TEMPLATE that it was made by (of a SandboxRunner the toolchain), its STATE, its
AGE, how long nobody has used it (IDLE), and how long it has until its shutdown time (EXPIRES). -o wide adds the
other columns of its kind. Objects are sorted by creation, and then by name.

-w goes on until it is interrupted, and prints each change. It resumes when the connection is lost.`,
		Example: `  sandbar get sandboxes -l env=prod,'tier in (web, api)'
  sandbar get sbx web -o yaml
  sandbar get sandboxrunners -A --sort-by .status.activity.lastActiveTime
  sandbar get sbx -L env -w`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.get(cmd, args, &o) },
	}
	fs := cmd.Flags()
	o.Selection.AddFlags(fs)
	o.addTableFlags(fs)
	fs.StringVar(&o.sortBy, "sort-by", "", "sort by a field, for example .metadata.name or .status.phase")
	fs.Int64Var(&o.chunkSize, "chunk-size", object.DefaultPageSize, "how many objects one request asks for; 0 asks for all at once")
	fs.IntVar(&o.limit, "limit", 0, "end the list after so many objects, in the server's order; 0 means all")
	fs.BoolVarP(&o.watch, "watch", "w", false, "list, and then print each change")
	fs.BoolVar(&o.watchOnly, "watch-only", false, "print each change, and not the list before")
	return cmd
}

// check refuses flags that do not go together.
func (o *getOptions) check(a cli.ObjectArgs) error {
	if err := o.Selection.Check(a.Names); err != nil {
		return err
	}
	switch {
	case o.chunkSize < 0:
		return &cli.UsageError{Err: fmt.Errorf("--chunk-size %d is less than 0", o.chunkSize)}
	case o.limit < 0:
		return &cli.UsageError{Err: fmt.Errorf("--limit %d is less than 0", o.limit)}
	case o.limit > 0 && len(a.Names) > 0:
		return &cli.UsageError{Err: errors.New("--limit is for a list: leave it out, or the names")}
	case o.limit > 0 && o.watching():
		return &cli.UsageError{Err: errors.New("--limit is for a list, and --watch follows all objects: leave one of them out")}
	case o.watching() && len(a.Names) > 1:
		return &cli.UsageError{Err: errors.New("--watch takes one NAME, or none and a selector")}
	}
	return nil
}

func (o *getOptions) watching() bool { return o.watch || o.watchOnly }

func (s *target) get(cmd *cobra.Command, args []string, o *getOptions) error {
	a, err := cli.ParseObjectArgs(cmd, args)
	if err != nil {
		return err
	}
	if err := o.check(a); err != nil {
		return err
	}
	p, err := o.printer()
	if err != nil {
		return err
	}
	order, err := parseSort(o.sortBy)
	if err != nil {
		return err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	if o.watching() {
		return cli.UntilInterrupted(cmd.Context(), o.follow(cmd, w, a, p, order))
	}
	if len(a.Names) > 0 {
		return o.show(cmd, s, w, a.Names, p)
	}
	opts := o.Options(w.Namespace)
	opts.PageSize, opts.Limit, opts.Columns = o.chunkSize, o.limit, p.columns()
	list, err := w.List(cmd.Context(), w.Of, opts)
	if err != nil {
		return err
	}
	return o.printList(cmd, w, list, p, order)
}

// printList prints a list in its order, and says when there is nothing or more.
func (o *getOptions) printList(cmd *cobra.Command, w *cli.WorkspaceObjects, list *object.List, p objectPrinter, order sorter) error {
	if len(list.Items) == 0 && p.says() {
		fmt.Fprintln(cmd.ErrOrStderr(), termsafe.Line(o.nothing(w)))
		return nil
	}
	order(list.Items)
	if err := p.print(cmd.OutOrStdout(), o.shown(w, list.Items, list)); err != nil {
		return err
	}
	if list.More {
		fmt.Fprintf(cmd.ErrOrStderr(), "There are more %s than the %d of --limit.\n", w.Of.Resource.Resource, o.limit)
	}
	return nil
}

func (o *getOptions) shown(w *cli.WorkspaceObjects, items []object.Item, list *object.List) Showing {
	return Showing{kind: w.Of, items: items, columns: list.Columns, namespaces: o.AllNamespaces && w.Of.Namespaced}
}

// show prints the objects that are named, in the order of their names in the call. One that is not there does not
// keep the others from being printed.
func (o *getOptions) show(cmd *cobra.Command, s *target, w *cli.WorkspaceObjects, names []string, p objectPrinter) error {
	all := &object.List{}
	var failed error
	for _, name := range names {
		list, err := w.Get(cmd.Context(), w.Of, w.Namespace, name, p.columns())
		switch {
		case err != nil && failed != nil:
			fmt.Fprintf(cmd.ErrOrStderr(), "sandbar: %s\n", cli.Explain(err))
		case err != nil:
			failed, s.Name = err, name
		default:
			all.Items = append(all.Items, list.Items...)
			all.Columns = list.Columns
		}
	}
	if len(all.Items) == 0 {
		return failed
	}
	shown := o.shown(w, all.Items, all)
	shown.one = len(names) == 1
	if err := p.print(cmd.OutOrStdout(), shown); err != nil {
		return err
	}
	return failed
}

// follow prints a list, and then each change.
func (o *getOptions) follow(cmd *cobra.Command, w *cli.WorkspaceObjects, a cli.ObjectArgs, p objectPrinter, order sorter) error {
	opts := o.Options(w.Namespace)
	opts.PageSize, opts.Columns = o.chunkSize, p.columns()
	if len(a.Names) == 1 {
		opts.Fields = fields.OneTermEqualSelector("metadata.name", a.Names[0])
	}
	list, err := w.List(cmd.Context(), w.Of, opts)
	if err != nil {
		return err
	}
	if o.watch {
		if err := o.printEach(cmd.OutOrStdout(), w, list, p, order); err != nil {
			return err
		}
	}
	return w.Watch(cmd.Context(), w.Of, opts, list, func(e object.Event) error { return o.printEvent(cmd, w, e, p) })
}

// printEach prints the list that a watch begins with: as one table, but for programs as one document for each
// object, as the changes are.
func (o *getOptions) printEach(out io.Writer, w *cli.WorkspaceObjects, list *object.List, p objectPrinter, order sorter) error {
	order(list.Items)
	if p.says() {
		if len(list.Items) == 0 {
			return nil
		}
		return p.print(out, o.shown(w, list.Items, list))
	}
	for _, item := range list.Items {
		one := o.shown(w, []object.Item{item}, list)
		one.one = true
		if err := p.print(out, one); err != nil {
			return err
		}
	}
	return nil
}

func (o *getOptions) printEvent(cmd *cobra.Command, w *cli.WorkspaceObjects, e object.Event, p objectPrinter) error {
	switch e.Type {
	case object.Gap:
		cli.Say(cmd.ErrOrStderr(), "the server has forgotten some changes; what follows is the difference to what was printed")
		return nil
	case object.Interrupted:
		cli.Say(cmd.ErrOrStderr(), "the connection is lost, and is made again (%s)", termsafe.Line(e.Err.Error()))
		return nil
	case object.Resumed:
		cli.Say(cmd.ErrOrStderr(), "the connection is there again")
		return nil
	default: // the object has changed
	}
	one := o.shown(w, []object.Item{e.Item}, &object.List{Columns: e.Columns})
	one.one, one.deleted = true, e.Type == object.Deleted
	return p.print(cmd.OutOrStdout(), one)
}
