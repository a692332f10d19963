// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newTrustCommand(s *target) *cobra.Command {
	var caFile string
	var yes, browsers, unseen bool
	cmd := &cobra.Command{
		Use:   "trust [URL]",
		Short: "Let a data plane get your token; without a URL, the one that your workspace is bound to",
		Long: `Let a data plane get your token.

Calling a verb sends your token to the data plane that the instance's status names. sandbar does
so only for data planes that you have named with this command. Check with the people who run
the provider that the URL is theirs.

Without a URL it lists those that your workspace's APIBindings name, and asks whether the one that
is not trusted yet may get your token; --yes answers. Without a terminal and --yes it trusts nothing,
and exits with 1. Where the binding has the hash of the data
plane's CA bundle, sandbar fetches the bundle from the data plane and takes it only if it has that
hash: no --ca-file is needed. --ca-file gives a bundle that you have from somewhere else.

With a URL, sandbar asks the data plane first whether it is there, without your token. sandbar untrust
takes it back.

--browsers shows how the browsers of this machine are made to trust the same CA, for previews, and
how to take that back. It changes nothing itself.`,
		Args: cli.AtMost("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if browsers {
				return s.showBrowserTrust(cmd, runtime.GOOS)
			}
			if len(args) > 0 {
				return s.trust(cmd, args[0], caFile, unseen)
			}
			if caFile != "" {
				return &cli.UsageError{Err: errors.New("--ca-file is the bundle of one data plane: name its URL")}
			}
			return s.trustOffered(cmd, yes)
		},
	}
	cmd.Flags().StringVar(&caFile, "ca-file", "", "PEM bundle that verifies the data plane, instead of the one that it gives itself")
	cmd.Flags().BoolVar(&browsers, "browsers", false, "show the commands with which browsers of this machine trust the data planes that you trust")
	cmd.Flags().BoolVar(&unseen, "no-check", false, "with a URL: do not ask the data plane whether it is there")
	cmd.Flags().BoolVar(&yes, "yes", false, "without a URL: trust the data plane that is named, without a question")
	return cmd
}

// trustOffered lists what the workspace's bindings name, and trusts the one that is not trusted if the person
// says so.
func (s *target) trustOffered(cmd *cobra.Command, yes bool) error {
	w, err := s.InWorkspace(cmd)
	if err != nil {
		return err
	}
	offers, err := w.Offers(cmd.Context())
	if err != nil {
		return err
	}
	planes, err := w.Trusted()
	if err != nil {
		return err
	}
	var open []client.Offer
	for _, o := range offers {
		standing := session.StandingOf(planes, o)
		fmt.Fprintf(cmd.OutOrStdout(), "%s\t(binding %s)\t%s\n", termsafe.Line(o.URL), termsafe.Line(o.Binding), standing)
		if standing != session.IsTrusted {
			open = append(open, o)
		}
	}
	switch {
	case len(offers) == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "No APIBinding in this workspace names a data plane: bring a provider's kinds into it with sandbar bind.")
		return nil
	case len(open) == 0:
		return nil
	case len(open) > 1 && yes:
		return &cli.UsageError{Err: fmt.Errorf("--yes is for one data plane, and there are %d to trust: name one with sandbar trust URL", len(open))}
	case len(open) > 1:
		return fmt.Errorf("nothing has changed, because %d data planes are not trusted: name the one that you mean with sandbar trust URL", len(open))
	case !yes && !cli.AsksPerson(cmd):
		return errors.New("nothing has changed, because without a terminal nobody can be asked: if the data plane is your provider's, run sandbar trust --yes")
	case !yes && !cli.Confirmed(cmd, open[0]):
		return errors.New("nothing is trusted")
	}
	return w.Take(cmd.Context(), open[0])
}

func (s *target) trust(cmd *cobra.Command, address, caFile string, unseen bool) error {
	plane := client.DataPlane{URL: strings.TrimRight(address, "/")}
	if caFile != "" {
		bundle, err := os.ReadFile(caFile)
		if err != nil {
			return fmt.Errorf("reading --ca-file: %w", err)
		}
		plane.CABundle = bundle
	}
	// Before anything else is read: a URL that can never be right needs no workspace.
	if err := plane.Check(); err != nil {
		return &cli.UsageError{Err: err}
	}
	w, err := s.InWorkspace(cmd)
	if err != nil {
		return err
	}
	return w.TrustURL(cmd.Context(), plane, unseen)
}
