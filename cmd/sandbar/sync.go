// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// errNotAlike ends a sync that left something; what, has been printed.
var errNotAlike = errors.New("not everything is in sync")

func newSyncCommand(s *session) *cobra.Command {
	var (
		opts   devsync.Options
		prefer string
		output string
	)
	cmd := &cobra.Command{
		Use:   "sync NAME [DIR [PATH...]]",
		Short: "Make a sandbox's files as those of a directory, once",
		Long: `Make a sandbox's files as those of a directory, once. DIR is the current directory if it is
not named.

What git ignores is left alone on both sides, and what a .sandbarignore names, and .git. What
changed on both sides since they were alike is a conflict: it is listed, and nothing of it is
overwritten. --prefer decides conflicts, all of them or those at the PATHs (relative to DIR) and
below. It exits with 1 when conflicts or refused files are left.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{fmt.Errorf("sync takes at least NAME; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := jsonOutput(output)
			if err != nil {
				return err
			}
			switch opts.Prefer = devsync.Side(prefer); opts.Prefer {
			case devsync.Neither, devsync.Local, devsync.Remotes:
			default:
				return &usageError{fmt.Errorf("--prefer %q is neither local nor remote", prefer)}
			}
			if len(args) > 2 {
				if opts.Prefer == devsync.Neither {
					return &usageError{errors.New("PATHs say where --prefer holds; it is missing")}
				}
				opts.PreferPaths = args[2:]
			}
			i, err := s.instance(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			p := &eventPrinter{out: cmd.ErrOrStderr(), quiet: asJSON}
			opts.OnEvent = p.print
			engine, err := openEngine(opts, i, args)
			if err != nil {
				return err
			}
			defer engine.Close()
			report, err := engine.Sync(cmd.Context())
			if err != nil {
				return err
			}
			return printReport(cmd.OutOrStdout(), report, asJSON)
		},
	}
	addSyncFlags(cmd.Flags(), &opts)
	cmd.Flags().StringVar(&prefer, "prefer", "", "local or remote: the side whose version is taken where both changed")
	addOutputFlag(cmd, &output)
	return cmd
}

// addSyncFlags adds what sync and dev have in common.
func addSyncFlags(fs *pflag.FlagSet, opts *devsync.Options) {
	fs.BoolVar(&opts.TwoWay, "two-way", false, "also bring back what the sandbox changed, lock files for example. Code that runs there chooses what comes: look at it before you run it here")
	fs.BoolVar(&opts.AllowEmpty, "allow-empty", false, "let an empty DIR delete all files of the sandbox")
	fs.StringVar(&opts.Restart, "restart", "start", "what follows changed files: never, start (a process that does not run or does not stay up is started), auto (it is restarted) or always")
}

// openEngine opens the engine for an instance and the directory that the arguments name.
func openEngine(opts devsync.Options, i *client.Instance, args []string) (*devsync.Engine, error) {
	switch opts.Restart {
	case "never", "start", "auto", "always":
	default:
		return nil, &usageError{fmt.Errorf("--restart %q is none of never, start, auto and always", opts.Restart)}
	}
	opts.Dir = "."
	if len(args) > 1 {
		opts.Dir = args[1]
	}
	opts.Remote, opts.ID = i.Workspace(), i.ID()
	return devsync.Open(opts)
}

func printReport(out io.Writer, r *devsync.Report, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		fmt.Fprintf(out, "%s\n", text)
	} else {
		for _, c := range r.Conflicts {
			fmt.Fprintf(out, "conflict\t%s\t%s\n", termsafe.String(c.Path), termsafe.String(c.Reason))
		}
		for _, f := range r.Refused {
			fmt.Fprintf(out, "refused\t%s\t%s\n", termsafe.String(f.Path), termsafe.String(f.Reason))
		}
		for _, path := range r.Differs {
			fmt.Fprintf(out, "differs\t%s\tchanged in the sandbox; --two-way brings it back\n", termsafe.String(path))
		}
	}
	switch {
	case len(r.Conflicts) > 0:
		return fmt.Errorf("%w: %d conflicts; sandbar sync NAME DIR --prefer local|remote [PATH...] decides them", errNotAlike, len(r.Conflicts))
	case len(r.Refused) > 0:
		return fmt.Errorf("%w: %d files are refused", errNotAlike, len(r.Refused))
	}
	return nil
}
