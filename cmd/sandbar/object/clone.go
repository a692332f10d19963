// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// cloneOptions are the flags of sandbar clone.
type cloneOptions struct {
	output
	session.CloneTexts
	name    string
	labels  []string
	wait    string
	timeout time.Duration

	setLabels map[string]string
	condition object.Condition
}

func newCloneCommand(s *target) *cobra.Command {
	var o cloneOptions
	cmd := &cobra.Command{
		Use:   "clone BASELINE/WORKLOAD… --name NAME",
		Short: "Create a Sandbox of copies of workloads that a Baseline offers",
		Long: `Create a Sandbox of copies of workloads of a Baseline, each with what the flags change. A workload is written as
BASELINE/WORKLOAD, or BASELINE/NAMESPACE/WORKLOAD if several have the name, with NAME= before it if the copy is to
have another name. sandbar baselines NAME shows what a Baseline has.

With --route gateway, a Gateway of the environment leads the requests to a hostname that carry the routing key of the Sandbox to the
copies: those of each --intercept to a port of a copy's Service. SERVICE is the one of the Baseline that has them otherwise, and
PATH the beginning of the paths. sandbar describe shows the routing key and the addresses. With --route proxy, a proxy in front of the
Service leads them, however they come; it has neither --host nor --gateway.

-o prints the Sandbox and creates nothing, so that you can change what has no flag: sandbar create -f - takes it.

The provider's data plane answers what the Baseline has, so it has to be trusted: sandbar trust.`,
		Example: `  sandbar clone storefront/frontend --name pr-421 --image app=ghcr.io/acme/storefront:pr-421 --wait
  sandbar clone web=storefront/frontend storefront/api --name try --env web/app:LEVEL=debug --replicas api=1
  sandbar clone storefront/frontend --name try --route gateway --host shop.example.com --intercept frontend=frontend:8080
  sandbar clone storefront/api --name try --route proxy --intercept api=api:8080
  sandbar clone storefront/frontend --name try -o yaml > sandbox.yaml`,
		Args:              cobra.ArbitraryArgs, // CloneTexts says how they are written
		RunE:              func(cmd *cobra.Command, args []string) error { return s.clone(cmd, args, &o) },
		ValidArgsFunction: s.completeWorkload,
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.Lookup("output").Usage = "print the Sandbox, and do not create it: " + documentFormats
	fs.StringVar(&o.name, "name", "", "name of the Sandbox (required)")
	fs.StringArrayVar(&o.Images, "image", nil, "image [WORKLOAD/]CONTAINER=IMAGE of a container; can be repeated")
	fs.StringArrayVar(&o.Env, "env", nil, "variable [WORKLOAD/]CONTAINER:NAME=VALUE of a container; can be repeated. Others on this machine may see it")
	fs.StringArrayVar(&o.Replicas, "replicas", nil, "replicas WORKLOAD=NUMBER of a copy; can be repeated")
	fs.StringVar(&o.Route.Provider, "route", "", "lead requests that carry the routing key to the copies: gateway, by a Gateway of the environment, or proxy, by a proxy in front of the Service")
	fs.StringArrayVar(&o.Route.Hosts, "host", nil, "hostname whose requests are led, with --route gateway; can be repeated")
	fs.StringArrayVar(&o.Route.Intercepts, "intercept", nil, "requests SERVICE[/PATH]=WORKLOAD:PORT that are led, with --route; can be repeated")
	fs.StringArrayVar(&o.Route.Gateways, "gateway", nil, "Gateway NAMESPACE/NAME[/LISTENER], with --route gateway; can be repeated; default the only one of the Baseline")
	fs.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE of the Sandbox; can be repeated")
	addWaitFlags(fs, &o.wait, &o.timeout)
	return cmd
}

// check reads the flags and arguments, before anything is sent.
func (o *cloneOptions) check(args []string) (*session.Clone, error) {
	o.Workloads = args
	wanted, err := o.Parse()
	if err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	pairs, err := parsePairs("--label", object.Labels, o.labels, false)
	if err != nil {
		return nil, err
	}
	o.setLabels = pairs.Set
	switch {
	case o.name == "":
		return nil, &cli.UsageError{Err: errors.New("say with --name what the Sandbox is to be called")}
	case o.wait != "" && o.format != "":
		return nil, &cli.UsageError{Err: errors.New("--wait and -o do not go together: -o creates nothing")}
	case o.wait == "":
		return wanted, nil
	}
	if o.condition, err = parseCondition(o.wait); err != nil {
		return nil, err
	}
	return wanted, checkTimeout(o.timeout)
}

func (s *target) clone(cmd *cobra.Command, args []string, o *cloneOptions) error {
	wanted, err := o.check(args)
	if err != nil {
		return err
	}
	p, err := o.writePrinter()
	if err != nil {
		return err
	}
	b, err := s.baseline(cmd.Context(), wanted.Baseline)
	if err != nil {
		return err
	}
	spec, err := wanted.Spec(b)
	if err != nil {
		return &cli.UsageError{Err: errors.New(termsafe.Line(err.Error()))} // the names are the provider's
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return fmt.Errorf("writing the Sandbox: %w", err)
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, "sandboxes")
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	obj.SetGroupVersionKind(w.Of.GVK())
	obj.SetNamespace(w.Namespace)
	obj.SetName(o.name)
	addTo(nil, o.setLabels, obj.SetLabels)
	if o.format != "" {
		return p.wrote(cmd.OutOrStdout(), w, obj, "", false)
	}
	created, err := w.Create(cmd.Context(), w.Of, w.Namespace, obj, object.WriteOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a %s %s in namespace %s already: choose another name, or delete that one first", w.Of.Name, o.name, w.Namespace)
	}
	if err != nil {
		return err
	}
	if err := p.wrote(cmd.OutOrStdout(), w, created, "created", false); err != nil || o.wait == "" {
		return err
	}
	_, err = await(cmd, w, created, o.condition, o.timeout)
	return longer(err, created, o.timeout)
}

// baseline is a Baseline that is offered to the workspace.
func (s *target) baseline(ctx context.Context, name string) (b client.Baseline, err error) {
	w, err := s.Open()
	if err != nil {
		return b, err
	}
	all, err := w.Baselines(ctx, name)
	if err != nil {
		return b, err
	}
	at := slices.IndexFunc(all, func(b client.Baseline) bool { return b.Name == name })
	if at < 0 {
		return b, fmt.Errorf("no Baseline %q is offered to this workspace; sandbar baselines lists those that are", name)
	}
	return all[at], nil
}

// completeWorkload completes BASELINE/WORKLOAD.
func (s *target) completeWorkload(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	for _, b := range s.OfferedBaselines(cmd) {
		for _, one := range b.Workloads {
			if text := termsafe.Line(b.Name + "/" + one.Name); strings.HasPrefix(text, word) && !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found, cli.NoFiles
}
