// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// listCommands prints the commands of a sandbox.
func listCommands(cmd *cobra.Command, i *client.Instance, asJSON bool) error {
	commands, err := i.Commands(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, c := range commands {
			if err := out.Encode(c); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return nil
	}
	if len(commands) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No command runs, and none has ended within the last minute.")
		return nil
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tSTARTED\tCOMMAND")
	for _, c := range commands {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", termsafe.Line(c.ID), stateOfCommand(c), c.Start.Local().Format(time.DateTime), termsafe.Line(strings.Join(c.Args, " ")))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// stateOfCommand says where a command stands.
func stateOfCommand(c client.Command) string {
	switch {
	case c.ExitCode != nil:
		return fmt.Sprintf("exited %d", *c.ExitCode)
	case c.Attached:
		return "attached"
	default:
		return "detached"
	}
}

// theCommand is the command that the beginning of an ID names, or the only one that runs.
func theCommand(ctx context.Context, i *client.Instance, args []string) (client.Command, error) {
	commands, err := i.Commands(ctx)
	if err != nil {
		return client.Command{}, err
	}
	id := append(args, "")[1]
	commands = slices.DeleteFunc(commands, func(c client.Command) bool {
		return !strings.HasPrefix(c.ID, strings.ToUpper(id)) || id == "" && c.ExitCode != nil
	})
	list := fmt.Sprintf("sandbar exec %s --list shows them", args[0])
	switch {
	case len(commands) == 1:
		return commands[0], nil
	case len(commands) == 0 && id == "":
		return client.Command{}, fmt.Errorf("no command runs in %s", args[0])
	case len(commands) == 0:
		return client.Command{}, fmt.Errorf("no command of %s has an ID that begins with %q; %s", args[0], id, list)
	case id == "":
		return client.Command{}, fmt.Errorf("%d commands run in %s: name the beginning of an ID; %s", len(commands), args[0], list)
	default:
		return client.Command{}, fmt.Errorf("%d commands of %s have an ID that begins with %q; %s", len(commands), args[0], id, list)
	}
}

func oneCommand(cmd *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return &cli.UsageError{Err: fmt.Errorf("%s takes NAME and perhaps the beginning of a command's ID; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	return nil
}

func newAttachCommand(s *target) *cobra.Command {
	var withInput bool
	cmd := &cobra.Command{
		Use:   "attach [KIND/]NAME [ID]",
		Short: "Return to a command that runs in a sandbox; exits with the command's exit code",
		Long: `Return to a command that sandbar exec began, here or elsewhere. ID is the beginning of what
sandbar exec NAME --list prints, and may be left out if one command runs.

The output that the sandbox still holds comes first, up to 256 KiB. A command has one client: the
one that had it ends. A command with a terminal gets this one's keys; others get input with -i.
From there on it is as with sandbar exec, and so are the exit codes.`,
		Args: oneCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := s.Instance(cmd.Context(), args[0], "exec")
			if err != nil {
				return asExec(err)
			}
			c, err := theCommand(cmd.Context(), i, args)
			if err != nil {
				return asExec(err)
			}
			opts := client.ExecOptions{TTY: c.TTY, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
			keyboard, ok := cmd.InOrStdin().(*os.File)
			if withInput || c.TTY && ok && cli.IsTerminal(keyboard) {
				opts.Stdin = cmd.InOrStdin()
			}
			join := func(ctx context.Context, opts client.ExecOptions) (int, error) { return i.Attach(ctx, c.ID, opts) }
			return asExec(runCommand(cmd.Context(), opts, join, cmd.ErrOrStderr()))
		},
	}
	cmd.Flags().BoolVarP(&withInput, "stdin", "i", false, "pass stdin to the command, which has to have been begun with an input")
	return cmd
}

func newKillCommand(s *target) *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use:   "kill [KIND/]NAME [ID]",
		Short: "End a command that runs in a sandbox, or send it a signal",
		Long: `End a command that sandbar exec began, here or elsewhere, and wait for its end: HUP and TERM, and
KILL two seconds later. With --signal, send its process group that signal and do not wait. ID is the
beginning of what sandbar exec NAME --list prints, and may be left out if one command runs.

The sandbox's own process is not meant: sandbar restart stops and starts that one.`,
		Args: oneCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.ToUpper(signal)
			if name != "" && !strings.HasPrefix(name, "SIG") {
				name = "SIG" + name
			}
			if name != "" && !slices.Contains(signalNames, name) {
				return &cli.UsageError{Err: fmt.Errorf("--signal %q is the name of no signal, such as HUP or SIGINT", signal)}
			}
			i, err := s.Instance(cmd.Context(), args[0], "exec")
			if err != nil {
				return err
			}
			c, err := theCommand(cmd.Context(), i, args)
			if err != nil {
				return err
			}
			if c.ExitCode != nil {
				return fmt.Errorf("the command has ended with exit code %d", *c.ExitCode)
			}
			code, err := i.EndCommand(cmd.Context(), c.ID, name)
			if err != nil {
				return err
			}
			if name == "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "The command has ended with exit code %d.\n", code)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "", "send this signal instead, for example HUP")
	return cmd
}
