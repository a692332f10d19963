// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// errNotAlike ends a sync that left something; what, has been printed.
var errNotAlike = errors.New("not everything is in sync")

// errConflicts is errNotAlike where a person has to decide.
var errConflicts = fmt.Errorf("%w", errNotAlike)

func newSyncCommand(s *target) *cobra.Command {
	var (
		opts   devsync.Options
		prefer string
		output string
	)
	cmd := &cobra.Command{
		Use:   "sync [KIND/]NAME [DIR [PATH...]]",
		Short: "Make a sandbox's files as those of a directory, once",
		Long: `Make a sandbox's files as those of a directory, once. DIR is the current directory if it is
not named.

What git ignores is left alone on both sides, and what a .sandbarignore names, and .git. What
changed on both sides since they were alike is a conflict: it is listed, and nothing of it is
overwritten. --prefer decides conflicts, all of them or those at the PATHs (relative to DIR) and
below. It exits with 1 when conflicts or refused files are left.

What may be a secret is withheld and listed, once: keys, credentials of tools, .env files.
--send-secret names what is sent nevertheless.

An instance with several components takes the part of DIR that its Template gives to each, or to
the one that --component names.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &cli.UsageError{Err: fmt.Errorf("sync takes at least NAME; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := cli.JSONOutput(output)
			if err != nil {
				return err
			}
			switch opts.Prefer = devsync.Side(prefer); opts.Prefer {
			case devsync.Neither, devsync.Local, devsync.Remotes:
			default:
				return &cli.UsageError{Err: fmt.Errorf("--prefer %q is neither local nor remote", prefer)}
			}
			if len(args) > 2 {
				if opts.Prefer == devsync.Neither {
					return &cli.UsageError{Err: errors.New("PATHs say where --prefer holds; it is missing")}
				}
				opts.PreferPaths = args[2:]
			}
			if err := checkRestart(opts.Restart); err != nil {
				return err
			}
			if err := checkDirectory(args, opts); err != nil {
				return err
			}
			parts, err := s.Parts(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var failed error
			for _, p := range parts {
				err := syncPart(cmd, p, opts, asJSON)
				if errors.Is(err, errConflicts) {
					err = fmt.Errorf("%w; sandbar sync %s %s --prefer local|remote [PATH...] decides", err, args[0], cli.Quoted(append(args, ".")[1]))
				}
				if err != nil && !errors.Is(err, errNotAlike) {
					return err
				}
				failed = cmp.Or(failed, err)
			}
			return failed
		},
	}
	addSyncFlags(cmd.Flags(), &opts)
	cmd.Flags().StringVar(&prefer, "prefer", "", "local or remote: the side whose version is taken where both changed")
	cli.AddOutputFlag(cmd, &output)
	return cmd
}

// addSyncFlags adds what sync and dev have in common.
func addSyncFlags(fs *pflag.FlagSet, opts *devsync.Options) {
	fs.BoolVar(&opts.TwoWay, "two-way", false, "also bring back what the sandbox changed, lock files for example. Code that runs there chooses what comes: look at it before you run it here")
	fs.BoolVar(&opts.AllowEmpty, "allow-empty", false, "let an empty DIR delete all files of the sandbox")
	fs.BoolVar(&opts.Broad, "yes", false, "let DIR be /, your home directory or one above it, or a directory above a git repository")
	fs.StringArrayVar(&opts.Secrets, "send-secret", nil, "pattern, as in a .gitignore, of what is sent although it may be a secret, for example .env; can be repeated")
	fs.StringVar(&opts.Restart, "restart", "start", "what follows changed files: never, start (a process that does not run or does not stay up is started), auto (it is restarted) or always")
}

// checkDirectory refuses a DIR that nobody means to send whole, before anything is created for it.
func checkDirectory(args []string, opts devsync.Options) error {
	if info, err := os.Stat(append(args, ".")[1]); err == nil && !info.IsDir() {
		return &cli.UsageError{Err: fmt.Errorf("%s is not a directory: DIR is the project's, and sandbar cp copies a single file", termsafe.Line(args[1]))}
	}
	if opts.Broad {
		return nil
	}
	err := devsync.CheckDir(append(args, ".")[1])
	var broad *devsync.BroadError
	if errors.As(err, &broad) {
		return &cli.UsageError{Err: fmt.Errorf("%w. Name the directory of your project, or pass --yes if you mean all of it", err)}
	}
	return err
}

func checkRestart(when string) error {
	switch when {
	case "never", "start", "auto", "always":
		return nil
	default:
		return &cli.UsageError{Err: fmt.Errorf("--restart %q is none of never, start, auto and always", when)}
	}
}

// syncPart syncs a part of the project and reports. PATHs are the project's; those of other parts
// decide nothing here.
func syncPart(cmd *cobra.Command, p session.Part, opts devsync.Options, asJSON bool) error {
	if len(opts.PreferPaths) > 0 {
		var own []string
		for _, name := range opts.PreferPaths {
			if below, ok := strings.CutPrefix(path.Clean(name)+"/", p.Path+"/"); ok {
				own = append(own, cmp.Or(strings.TrimSuffix(below, "/"), "."))
			} else if p.Path == "." {
				own = append(own, name)
			}
		}
		if opts.PreferPaths = own; len(own) == 0 {
			opts.Prefer = devsync.Neither
		}
	}
	printer := &eventPrinter{out: prefixed(cmd.ErrOrStderr(), p.Component), quiet: asJSON, reported: true}
	opts.OnEvent = printer.print
	engine, err := p.Open(opts)
	if err != nil {
		return err
	}
	defer engine.Close()
	report, err := engine.Sync(cmd.Context())
	if err != nil {
		return err
	}
	return printReport(cmd.OutOrStdout(), p.Component, report, asJSON)
}

// partReport is what -o json tells of a part.
type partReport struct {
	Component string `json:"component,omitempty"`
	*devsync.Report
}

func printReport(out io.Writer, component string, r *devsync.Report, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(partReport{component, r})
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		fmt.Fprintf(out, "%s\n", text)
	} else {
		out = prefixed(out, component)
		for _, c := range r.Conflicts {
			fmt.Fprintf(out, "conflict\t%s\t%s\n", termsafe.Line(c.Path), termsafe.Line(c.Reason))
		}
		for _, f := range r.Refused {
			fmt.Fprintf(out, "refused\t%s\t%s\n", termsafe.Line(f.Path), termsafe.Line(f.Reason))
		}
		for _, f := range r.Withheld {
			fmt.Fprintf(out, "withheld\t%s\t%s; %s\n", termsafe.Line(f.Path), termsafe.Line(f.Reason), howToSend(f.Path))
		}
		for _, path := range r.Differs {
			fmt.Fprintf(out, "differs\t%s\tchanged in the sandbox; --two-way brings it back\n", termsafe.Line(path))
		}
		for _, path := range r.Undecided {
			fmt.Fprintf(out, "undecided\t%s\tneither this path nor one below it is in conflict\n", termsafe.Line(path))
		}
	}
	switch {
	case len(r.Conflicts) > 0:
		return fmt.Errorf("%w: %s", errConflicts, cli.Counted(len(r.Conflicts), "conflict"))
	case len(r.Refused) > 0:
		return fmt.Errorf("%w: %s refused, for the reasons above", errNotAlike, cli.Counted(len(r.Refused), "path"))
	}
	return nil
}
