// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func newLogsCommand(s *target) *cobra.Command {
	var (
		opts   client.LogOptions
		tail   int
		output string
	)
	cmd := &cobra.Command{
		Use:     "logs [KIND/]NAME",
		Aliases: []string{"log"},
		Short:   "Print what the process in a sandbox wrote, and with -f what it writes",
		Long: `Print what the process in a sandbox wrote, and with -f what it writes.

A connection that breaks is made again and goes on with the next byte; that, and every gap, is
said on stderr. Of an instance whose components have the logs it prints them all, with the name of the component before
each line, or that of --component. In a kind without a runner a log ends with its container: -f says with what it
ended, and goes on with the next one. On a terminal, control sequences of the sandbox are shown and not obeyed, but for
colours and lines that begin again; elsewhere stdout gets the bytes as they were written.`,
		Args: cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tail < -1 {
				return &cli.UsageError{Err: fmt.Errorf("--tail %d: give how many lines, or -1 for all that is held", tail)}
			}
			if tail >= 0 {
				opts.Tail = &tail
			}
			switch opts.Stream {
			case "", "stdout", "stderr":
			default:
				return &cli.UsageError{Err: fmt.Errorf("--stream %q is neither stdout nor stderr", opts.Stream)}
			}
			if opts.Since < 0 {
				return &cli.UsageError{Err: fmt.Errorf("--since %s is not before now: it says how old a line may be, for example 10m", opts.Since)}
			}
			asJSON, err := cli.JSONOutput(output)
			if err != nil {
				return err
			}
			components, err := s.Components(cmd.Context(), args[0], "log")
			if err != nil {
				return err
			}
			ctx, stop := whileRead(cmd.Context(), cmd.OutOrStdout())
			defer stop()
			return orUnread(ctx, printLogs(ctx, cmd, components, opts, asJSON))
		},
	}
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on with what comes, until interrupted")
	cmd.Flags().IntVar(&tail, "tail", -1, "begin that many lines before the end; -1 for all that is held")
	cmd.Flags().DurationVar(&opts.Since, "since", 0, "leave out what is older, for example 10m")
	cmd.Flags().BoolVar(&opts.Timestamps, "timestamps", false, "put the time (UTC) before each line")
	cmd.Flags().StringVar(&opts.Stream, "stream", "", "stdout or stderr; both if empty")
	cli.AddOutputFlag(cmd, &output)
	return cmd
}
