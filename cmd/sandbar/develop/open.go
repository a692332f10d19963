// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newOpenCommand(s *target) *cobra.Command {
	var (
		opts   client.PreviewOptions
		port   uint16
		valid  time.Duration
		only   bool
		stay   bool
		revoke bool
	)
	cmd := &cobra.Command{
		Use:   "open [KIND/]NAME",
		Short: "Open what a sandbox serves in a browser, on an address of its own",
		Args:  cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if valid != 0 && (valid < client.MinPreview || valid > client.MaxPreview) {
				return &cli.UsageError{Err: fmt.Errorf("--for %s: a preview lasts from 1m to 12h, and no longer than the provider allows", valid)}
			}
			if !strings.HasPrefix(opts.Path, "/") {
				return &cli.UsageError{Err: fmt.Errorf("--path %q: a path begins with /", opts.Path)}
			}
			i, err := s.Instance(cmd.Context(), args[0], "proxy-url")
			if err != nil {
				return err
			}
			i = i.Port(port)
			if revoke {
				return i.RevokePreviews(cmd.Context())
			}
			opts.ExpirationSeconds = int64(valid / time.Second)
			if stay {
				renewing, err := renewPreviews(cmd.Context(), i, opts)
				if err != nil {
					return err
				}
				defer renewing.stop()
				opts.RenewURL = renewing.url
			}
			preview, err := i.Preview(cmd.Context(), opts)
			var call *client.CallError
			if port != 0 && errors.As(err, &call) && call.Code == http.StatusNotFound {
				return fmt.Errorf("%w; the port to open may be chosen in kinds that serve any: leave --port out if this one has its own", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), termsafe.Line(preview.URL))
			fmt.Fprintf(cmd.ErrOrStderr(), "Open it within %s; it shows the sandbox until %s.\n",
				time.Until(preview.Expires).Round(time.Second), preview.SessionExpires.Local().Format(time.DateTime))
			if s := i.Status.Suspension; s != nil && s.Cause != sandbarv1alpha1.SuspendedUnused {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is suspended, and shows nothing before it is resumed: sandbar resume %s\n", args[0], args[0])
			}
			if !only && cli.IsTerminal(os.Stdout) {
				if err := cli.Browse(cmd.Context(), preview.URL); err != nil {
					return err
				}
			}
			if stay {
				fmt.Fprintln(cmd.ErrOrStderr(), "The preview is renewed for as long as this command runs; end it with Ctrl-C.")
				<-cmd.Context().Done()
				return cli.UntilInterrupted(cmd.Context(), nil)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Path, "path", "/", "page to begin with")
	cmd.Flags().Uint16VarP(&port, "port", "p", 0, "port of the pod that is meant, in a kind that serves any, like Sandbox")
	cmd.Flags().DurationVar(&valid, "for", 0, "how long the browser may use the preview at most, from 1m to 12h; as long as the provider allows if zero")
	cmd.Flags().BoolVar(&only, "print", false, "print the URL and start no browser; so it is when stdout is no terminal")
	cmd.Flags().BoolVar(&stay, "stay", false, "stay until interrupted, and renew the preview when the browser comes for a page after its time")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end all previews of the sandbox that were given out so far, for everybody")
	return cmd
}
