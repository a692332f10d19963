// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbar-dev/sandbar/client/bind"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// defaultBindTimeout is how long bind waits; kcp serves a binding within seconds.
	defaultBindTimeout = 2 * time.Minute
	// maxBindTimeout bounds --timeout.
	maxBindTimeout = time.Hour
)

// binding are the flags of bind.
type binding struct {
	exportName, name string
	yes              bool
	timeout          time.Duration
}

func newBindCommand(s *target) *cobra.Command {
	var b binding
	cmd := &cobra.Command{
		Use:   "bind [WORKSPACE]",
		Short: "Bring a provider's kinds into your workspace, after showing what the provider may do there",
		Long: `Bring a provider's kinds into your workspace, after showing what the provider may do there.

WORKSPACE is the provider's, ` + bind.DefaultPath + ` by default; ask the people who run it. The name of
the export can follow it, as in root:sandbar:sandbar.dev. sandbar bind lists the permissions that the
provider gets, asks, creates the APIBinding with exactly those, and returns when your workspace
serves the kinds. It never grants what it does not list, and what you have rejected stays rejected.

If the workspace is bound already, bind adds what an older binding lacks, and lists what it grants
in addition. The name of the binding goes to stdout, all else to stderr.`,
		Args: cli.AtMost("WORKSPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.timeout < time.Second || b.timeout > maxBindTimeout {
				return &cli.UsageError{Err: fmt.Errorf("--timeout %s: bind waits from 1s to %s", b.timeout, maxBindTimeout)}
			}
			export, err := bind.ParseExport(strings.Join(args, ""), b.exportName)
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			return s.bind(cmd, export, b)
		},
	}
	cmd.Flags().StringVar(&b.exportName, "export-name", "", "name of the provider's APIExport, "+bind.DefaultName+" by default")
	cmd.Flags().StringVar(&b.name, "name", "", "name of the APIBinding; that of the export by default")
	cmd.Flags().BoolVar(&b.yes, "yes", false, "grant what is listed without a question")
	cmd.Flags().DurationVar(&b.timeout, "timeout", defaultBindTimeout, "how long to wait until the kinds are served")
	return cmd
}

func (s *target) bind(cmd *cobra.Command, export bind.Export, b binding) error {
	cfg, _, err := s.Workspace()
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.ErrOrStderr()
	plan, err := bind.Look(ctx, cfg, export, b.name)
	if err != nil {
		return s.StartError(ctx, err)
	}
	printPlan(out, plan, cli.PlaceOf(cfg.Host))
	if !plan.Done() && !b.yes {
		if !cli.AsksPerson(cmd) {
			return &cli.UsageError{Err: errors.New("nothing has been changed: bind asks before it grants anything, and this is not a terminal; pass --yes to grant what is listed")}
		}
		agreed, err := cli.Agrees(cmd, "Grant this?")
		if err != nil {
			return err
		}
		if !agreed {
			return errors.New("nothing has been changed")
		}
	}
	if err := plan.Apply(ctx); err != nil {
		return s.applyError(ctx, plan, err)
	}
	bound, err := plan.Wait(ctx, b.timeout)
	if err != nil {
		return s.waitError(ctx, plan, err)
	}
	done := "created"
	if plan.Exists {
		done = "configured"
	}
	if plan.Done() {
		done = "unchanged"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "apibinding.apis.kcp.io/%s %s\n", termsafe.Line(plan.Binding), done)
	printBound(out, bound)
	return nil
}

// printPlan lists what the provider may do, before anything changes.
func printPlan(out io.Writer, p *bind.Plan, place string) {
	name := termsafe.Line(p.Binding) // the server's, where the binding exists
	if p.Exists {
		fmt.Fprintf(out, "The binding %s brings the kinds of %s into %s.\n", name, p.Export, place)
	} else {
		fmt.Fprintf(out, "The binding %s will bring the kinds of %s into %s.\n", name, p.Export, place)
	}
	if len(p.Grants) > 0 {
		also := ""
		if p.Exists {
			also = "also "
		}
		fmt.Fprintf(out, "The provider has access to the objects of these kinds. In this workspace it may %sdo this, and nothing else:\n", also)
		for _, c := range p.Grants {
			fmt.Fprintf(out, "  %s: to %s\n", c, c.Purpose)
		}
	}
	for _, c := range p.Rejected {
		fmt.Fprintf(out, "It rejects %s, and that stays so. Sandbar would use it to %s.\n", c, c.Purpose)
	}
	for _, c := range p.Narrowed {
		fmt.Fprintf(out, "It grants %s for some objects only, by a selector. Sandbar uses it to %s.\n", c, c.Purpose)
	}
	for _, c := range p.Beyond {
		fmt.Fprintf(out, "It also grants %s, which Sandbar does not use: kubectl edit apibinding %s takes it back.\n", termsafe.Line(c.String()), name)
	}
}

// printBound lists what the workspace has now.
func printBound(out io.Writer, bound *bind.Bound) {
	var kinds []string
	for _, k := range bound.Kinds {
		kinds = append(kinds, k.Kind)
	}
	if len(kinds) == 0 {
		fmt.Fprintln(out, "The provider exports no kinds yet; they come into the workspace by themselves.")
	} else {
		fmt.Fprintf(out, "The workspace serves %s.\n", termsafe.Line(strings.Join(kinds, ", ")))
	}
	if bound.Conflict != "" {
		fmt.Fprintf(out, "It does not serve all: %s\n", termsafe.Line(bound.Conflict))
	}
	for _, c := range bound.Unmet {
		fmt.Fprintf(out, "The provider also asks for %s, and does not get it.\n", termsafe.Line(c.String()))
	}
	fmt.Fprintln(out, "Next, let its data plane get your token: sandbar trust")
}

// applyError is an error of Plan.Apply with what helps.
func (s *target) applyError(ctx context.Context, p *bind.Plan, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case bind.NoRight(err) && strings.Contains(err.Error(), "no permission to bind"):
		return fmt.Errorf("there is no export %s, or you may not bind it: ask the people who run the provider for its workspace, and for the right", p.Export)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("the binding %s was changed meanwhile, and nothing has been changed by this command: run it again", p.Binding)
	default:
		return s.StartError(ctx, err)
	}
}

// waitError is an error of Plan.Wait with what helps.
func (s *target) waitError(ctx context.Context, p *bind.Plan, err error) error {
	var late *bind.NotServedError
	var conflict *bind.ConflictError
	switch {
	case errors.As(err, &late):
		return fmt.Errorf("%w; run sandbar bind again to wait longer", err)
	case errors.As(err, &conflict):
		return fmt.Errorf("%w; delete those, or this binding: kubectl delete apibinding %s", err, p.Binding)
	default:
		return s.StartError(ctx, err)
	}
}
