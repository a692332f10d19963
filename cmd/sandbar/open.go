// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandbar-dev/sandbar/client"
)

func newOpenCommand(s *session) *cobra.Command {
	var (
		opts   client.PreviewOptions
		port   uint16
		valid  time.Duration
		only   bool
		revoke bool
	)
	cmd := &cobra.Command{
		Use:   "open NAME",
		Short: "Open what a sandbox serves in a browser, on an address of its own",
		Args:  named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := s.instance(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			i = i.Port(port)
			if revoke {
				return i.RevokePreviews(cmd.Context())
			}
			opts.ExpirationSeconds = int64(valid / time.Second)
			preview, err := i.Preview(cmd.Context(), opts)
			var call *client.CallError
			if port != 0 && errors.As(err, &call) && call.Code == http.StatusNotFound {
				return fmt.Errorf("%w; the port to open may be chosen in kinds that serve any: leave --port out if this one has its own", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), preview.URL)
			fmt.Fprintf(cmd.ErrOrStderr(), "Open it within %s; it shows the sandbox until %s.\n",
				time.Until(preview.Expires).Round(time.Second), preview.SessionExpires.Local().Format(time.DateTime))
			if only || !isTerminal(os.Stdout) {
				return nil
			}
			return browse(cmd.Context(), preview.URL)
		},
	}
	cmd.Flags().StringVar(&opts.Path, "path", "/", "page to begin with")
	cmd.Flags().Uint16VarP(&port, "port", "p", 0, "port of the pod that is meant, in a kind that serves any, like Sandbox")
	cmd.Flags().DurationVar(&valid, "for", 0, "how long the browser may use the preview; the provider's default if zero")
	cmd.Flags().BoolVar(&only, "print", false, "print the URL and start no browser; so it is when stdout is no terminal")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end all previews of the sandbox that were given out so far, for everybody")
	return cmd
}

// browse starts the person's browser. Without one the URL has been printed all the same.
func browse(ctx context.Context, address string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil //nolint:nilerr // no browser is no failure: the URL is on stdout
	}
	if err := exec.CommandContext(ctx, path, address).Run(); err != nil {
		return fmt.Errorf("starting a browser: %w", err)
	}
	return nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
