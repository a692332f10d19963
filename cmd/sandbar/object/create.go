// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// waitTimeout is how long a command waits for an object if --timeout does not say otherwise.
const waitTimeout = 5 * time.Minute

// createOptions are the flags of sandbar create.
type createOptions struct {
	output
	file                string
	labels, annotations []string
	settings            []string
	dryRun              dryRun
	wait                string
	timeout             time.Duration

	// setLabels and setAnnotations are what the flags say, once they were checked.
	setLabels, setAnnotations map[string]string
	condition                 object.Condition
}

func newCreateCommand(s *target) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use:   "create KIND NAME",
		Short: "Create an object of any kind that the workspace has",
		Long: `Create an object of a kind that the workspace has, with the labels, annotations and fields of the flags.

--set PATH=VALUE sets a field. The path is below spec unless it begins with metadata, and names an element of a
list as in env[0]. The value is read as the type that the kind has there, so that "true" stays a text where one is
wanted; lists and objects are written in YAML: --set 'tags={team: checkout}'. -f FILE begins with an object in YAML or
JSON, - being the input; with it, KIND and NAME can be left out.

--wait returns when the object is Ready, and --wait=CONDITION when it has another condition; progress goes to
stderr. It exits with 1 if the object does not come there within --timeout: the object stays.`,
		Example: `  sandbar create sandboxrunner web --set toolchain=python --label env=dev --wait
  sandbar create sandbox shop --set template.templateRef.name=node-22 --set lifecycle.sleepAfterUnused=30m
  sandbar create -f sandbox.yaml --dry-run -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.create(cmd, args, &o) },
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.StringVarP(&o.file, "filename", "f", "", "file with the object in YAML or JSON; - reads the input")
	fs.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE of the object; can be repeated")
	fs.StringArrayVar(&o.annotations, "annotation", nil, "annotation KEY=VALUE of the object; can be repeated")
	fs.StringArrayVar(&o.settings, "set", nil, "field PATH=VALUE of the object; can be repeated")
	o.dryRun.addFlag(fs)
	addWaitFlags(fs, &o.wait, &o.timeout)
	return cmd
}

// dryRun is --dry-run, or --dry-run=server as kubectl has it.
type dryRun bool

func (d *dryRun) String() string {
	if *d {
		return "server"
	}
	return "none"
}

func (d *dryRun) Type() string { return "mode" }

func (d *dryRun) Set(text string) error {
	switch text {
	case "server", "true":
		*d = true
	case "none", "false":
		*d = false
	default:
		return errors.New("the modes are server and none: the server always checks a dry run")
	}
	return nil
}

func (d *dryRun) addFlag(fs *pflag.FlagSet) {
	fs.Var(d, "dry-run", "have the server check the change, and not make it")
	fs.Lookup("dry-run").NoOptDefVal = "server"
}

func addWaitFlags(fs *pflag.FlagSet, wait *string, timeout *time.Duration) {
	fs.StringVar(wait, "wait", "", "wait until the object has this condition; Ready if none is named")
	fs.Lookup("wait").NoOptDefVal = sandbarv1alpha1.InstanceReadyCondition
	fs.DurationVar(timeout, "timeout", waitTimeout, "how long to wait at most")
}

// check reads the flags, before anything is sent.
func (o *createOptions) check() error {
	pairs, err := parsePairs("--label", object.Labels, o.labels, false)
	if err != nil {
		return err
	}
	o.setLabels = pairs.Set
	if pairs, err = parsePairs("--annotation", object.Annotations, o.annotations, false); err != nil {
		return err
	}
	o.setAnnotations = pairs.Set
	if o.wait == "" {
		return nil
	}
	if o.dryRun {
		return &cli.UsageError{Err: errors.New("--wait and --dry-run do not go together: a dry run creates nothing")}
	}
	if o.condition, err = parseCondition(o.wait); err != nil {
		return err
	}
	return checkTimeout(o.timeout)
}

func checkTimeout(timeout time.Duration) error {
	if timeout <= 0 {
		return &cli.UsageError{Err: fmt.Errorf("--timeout %s leaves no time to wait", timeout)}
	}
	return nil
}

// parsePairs reads labels or annotations of a flag, or of arguments if none is named.
func parsePairs(flag string, kind object.PairKind, texts []string, removable bool) (object.Pairs, error) {
	pairs, err := kind.Parse(texts, removable)
	if err != nil {
		return pairs, &cli.UsageError{Err: fmt.Errorf("%s %w", flag, err)}
	}
	return pairs, nil
}

// parseCondition reads TYPE or TYPE=STATUS.
func parseCondition(text string) (object.Condition, error) {
	kind, status, has := strings.Cut(text, "=")
	c := object.Condition{Type: kind, Status: metav1.ConditionTrue}
	if has {
		c.Status = metav1.ConditionStatus(status)
	}
	switch c.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		if kind != "" {
			return c, nil
		}
	}
	return c, &cli.UsageError{Err: fmt.Errorf("%q is not a condition: write its type, such as Ready, or TYPE=STATUS with the status True, False or Unknown", text)}
}

func (s *target) create(cmd *cobra.Command, args []string, o *createOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	p, err := o.writePrinter()
	if err != nil {
		return err
	}
	obj, a, err := o.begin(cmd, args)
	if err != nil {
		return err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	s.Name = a.Names[0]
	if err := o.complete(cmd, w, obj, s.Name); err != nil {
		return err
	}
	if w.Namespace, err = namespaceOf(cmd, w, obj); err != nil {
		return err
	}
	created, err := w.Create(cmd.Context(), w.Of, w.Namespace, obj, object.WriteOptions{DryRun: bool(o.dryRun)})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a %s %s in namespace %s already: choose another name, or delete that one first", w.Of.Name, s.Name, w.Namespace)
	}
	if err != nil {
		return err
	}
	if o.wait == "" {
		return p.wrote(cmd.OutOrStdout(), w, created, "created", bool(o.dryRun))
	}
	if o.format == "" { // a document is printed once, in the state that was waited for
		if err := p.wrote(cmd.OutOrStdout(), w, created, "created", false); err != nil {
			return err
		}
	}
	ready, err := await(cmd, w, created, o.condition, o.timeout)
	if err != nil || o.format == "" {
		return longer(err, created, o.timeout)
	}
	return p.wrote(cmd.OutOrStdout(), w, ready, "created", false)
}

// begin returns the object that the flags begin with, and which one it is to be.
func (o *createOptions) begin(cmd *cobra.Command, args []string) (*unstructured.Unstructured, cli.ObjectArgs, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if o.file != "" {
		all, err := readObjects(cmd.InOrStdin(), o.file)
		if err != nil {
			return nil, cli.ObjectArgs{}, err
		}
		if len(all) != 1 {
			return nil, cli.ObjectArgs{}, &cli.UsageError{Err: fmt.Errorf("-f %s has %d objects; create takes one, and sandbar apply any number", o.file, len(all))}
		}
		if obj = all[0]; len(args) == 0 {
			if obj.GetName() == "" {
				return nil, cli.ObjectArgs{}, &cli.UsageError{Err: fmt.Errorf("-f %s: the object has no name: write it there as metadata.name, or call create KIND NAME -f %s", o.file, o.file)}
			}
			args = []string{kindArgument(obj), obj.GetName()}
		}
	}
	a, err := cli.ParseObjectArgs(cmd, args)
	if err != nil {
		return nil, a, err
	}
	if err := a.OneName(cmd); err != nil {
		return nil, a, err
	}
	return obj, a, nil
}

// complete adds to an object what the arguments and flags say.
func (o *createOptions) complete(cmd *cobra.Command, w *cli.WorkspaceObjects, obj *unstructured.Unstructured, name string) error {
	if gvk := obj.GroupVersionKind(); !gvk.Empty() && gvk.GroupKind() != w.Of.GVK().GroupKind() {
		return &cli.UsageError{Err: fmt.Errorf("-f %s has a %s, and KIND says %s", o.file, termsafe.Line(gvk.Kind), w.Of.Name)}
	}
	if has := obj.GetName(); has != "" && has != name {
		return &cli.UsageError{Err: fmt.Errorf("-f %s has the name %s, and NAME says %s", o.file, termsafe.Line(has), name)}
	}
	obj.SetName(name)
	addTo(obj.GetLabels(), o.setLabels, obj.SetLabels)
	addTo(obj.GetAnnotations(), o.setAnnotations, obj.SetAnnotations)
	if len(o.settings) == 0 {
		return nil
	}
	schema, err := w.Schema(cmd.Context(), w.Of)
	if err != nil {
		return err
	}
	for _, setting := range o.settings {
		if err := schema.Set(obj.Object, setting); err != nil {
			return &cli.UsageError{Err: fmt.Errorf("--set %w", err)}
		}
	}
	return nil
}

func addTo(has, more map[string]string, set func(map[string]string)) {
	if len(more) == 0 {
		return
	}
	if has == nil {
		has = map[string]string{}
	}
	maps.Copy(has, more)
	set(has)
}

// await waits until an object has a condition, and tells each state that it has meanwhile.
func await(cmd *cobra.Command, w *cli.WorkspaceObjects, obj *unstructured.Unstructured, condition object.Condition, timeout time.Duration) (*unstructured.Unstructured, error) {
	if reached, err := condition.Reached(obj); reached || err != nil {
		return obj, err
	}
	progress := newProgress(cmd.ErrOrStderr(), obj.GetName())
	progress.at(object.StateOf(obj))
	last := obj
	err := w.Await(cmd.Context(), w.Of, obj.GetNamespace(), obj.GetName(), timeout, func(now *unstructured.Unstructured) (bool, error) {
		if now == nil || now.GetUID() != obj.GetUID() {
			return false, fmt.Errorf("the %s %s was deleted meanwhile", w.Of.Name, obj.GetName())
		}
		last = now
		reached, err := condition.Reached(now)
		if !reached && err == nil {
			progress.at(object.StateOf(now))
		}
		return reached, err
	})
	if err == nil {
		progress.at(condition.Type)
	}
	return last, err
}

// progress tells the states of an object that is waited for, each once, with the time that it came.
type progress struct {
	out  io.Writer
	name string
	told string
}

func newProgress(out io.Writer, name string) *progress { return &progress{out: out, name: name} }

func (p *progress) at(state string) {
	if state == p.told {
		return
	}
	p.told = state
	cli.Say(p.out, "%s is %s", p.name, state)
}
