// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func newDevCommand(s *target) *cobra.Command {
	var (
		opts    devsync.Options
		create  session.EnsureOptions
		making  bool
		output  string
		noLogs  bool
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "dev [KIND/]NAME [DIR]",
		Short: "Keep a sandbox's files as those of a directory while you edit, and show its log",
		Long: `Keep a sandbox's files as those of a directory while you edit, and show its log, until
interrupted. DIR is the current directory if it is not named.

The log goes to stdout, what happens to the files to stderr; with -o json both go to stdout, one
object a line. A lost connection is told, tried again for as long as it takes, and nothing that
was saved or printed meanwhile is lost. An app that does not stay up is told, with its last lines;
so is where to open one that does. Conflicts stay until sandbar sync --prefer decides them.

An instance with several components takes the part of DIR that its Template gives to each, or to
the one that --component names; the component stands before each line, and in each object.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return &cli.UsageError{Err: fmt.Errorf("dev takes NAME and perhaps DIR; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := cli.JSONOutput(output)
			if err != nil {
				return err
			}
			if err := checkRestart(opts.Restart); err != nil {
				return err
			}
			if err := checkDirectory(args, opts); err != nil {
				return err
			}
			for _, flag := range []string{"start-command", "timeout", "toolchain"} {
				if cmd.Flags().Changed(flag) && !making {
					return &cli.UsageError{Err: fmt.Errorf("--%s is for a sandbox that --create makes; it is missing", flag)}
				}
			}
			if making {
				create.Dir = append(args, ".")[1]
				if err := s.ensure(cmd, args[0], create); err != nil {
					return err
				}
			}
			parts, err := s.Parts(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			var unsynced atomic.Int64 // parts
			unsynced.Store(int64(len(parts)))
			group.Go(func() error {
				d := newDevPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, verbose, "")
				return s.followState(ctx, args[0], parts, d, func() bool { return unsynced.Load() == 0 })
			})
			for _, p := range parts {
				d := newDevPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, verbose, p.Component)
				d.events.decides = fmt.Sprintf("sandbar sync %s %s --prefer local|remote [PATH...]", args[0], cli.Quoted(append(args, ".")[1]))
				opts := opts
				settled := sync.OnceFunc(func() { unsynced.Add(-1) })
				opts.OnEvent = func(e devsync.Event) {
					d.event(e)
					if e.Type == devsync.EventSettled || e.Type == devsync.EventUnsettled {
						settled()
					}
				}
				group.Go(func() error {
					engine, err := p.Open(opts)
					if err != nil {
						return err
					}
					defer engine.Close()
					return develop(ctx, engine, p.Instance, d, noLogs)
				})
			}
			return cli.UntilInterrupted(cmd.Context(), group.Wait())
		},
	}
	addSyncFlags(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&making, "create", false, "create the SandboxRunner if there is none, resume it if it is suspended, and wait until it takes files")
	cmd.Flags().StringVar(&create.StartCommand, "start-command", "", "with --create: what a new SandboxRunner runs; its Template's default if empty")
	cmd.Flags().StringVar(&create.Toolchain, "toolchain", "", "with --create: the language of a new SandboxRunner, node, python or go; its Template's default if empty")
	cmd.Flags().DurationVar(&create.Timeout, "timeout", session.DefaultTimeout, "with --create: how long to wait until it takes files")
	cmd.Flags().BoolVar(&noLogs, "no-logs", false, "do not show the log")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also tell of files that wait and that are being sent")
	cli.AddOutputFlag(cmd, &output)
	return cmd
}

// develop watches and follows the log until the context ends, or one of both cannot go on. The log
// comes first: an app that the first files make crash says why at once.
func develop(ctx context.Context, engine *devsync.Engine, i *client.Instance, d *devPrinter, noLogs bool) error {
	group, ctx := errgroup.WithContext(ctx)
	reading := make(chan struct{})
	if noLogs {
		close(reading)
	} else {
		group.Go(func() error {
			return followLog(ctx, i, d, sync.OnceFunc(func() { close(reading) }), engine.Refresh)
		})
	}
	group.Go(func() error {
		select {
		case <-reading:
			return engine.Watch(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// followLog prints the log from now on. It calls reading when it is being read, and returned when
// the sandbox was away, and its files may be others: a new pod, another volume.
func followLog(ctx context.Context, i *client.Instance, d *devPrinter, reading, returned func()) error {
	none, lost := 0, false
	for e, err := range i.Logs(ctx, client.LogOptions{Follow: true, Wait: true, Tail: &none}) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := d.log(e); err != nil {
			return err
		}
		if e.Type == client.LogConnected {
			reading()
		}
		if e.Type == client.LogReplaced || e.Type == client.LogConnected && lost {
			returned()
		}
		lost = e.Type == client.LogDisconnected
	}
	return nil
}

// devPrinter prints a log and what happens to files, which come from two goroutines.
type devPrinter struct {
	mu    sync.Mutex
	out   io.Writer
	notes io.Writer
	json  bool
	// component is empty for an instance that is one workspace.
	component string
	logs      *logPrinter
	events    *eventPrinter
	failed    error
}

func newDevPrinter(out, notes io.Writer, asJSON, verbose bool, component string) *devPrinter {
	told := prefixed(notes, component)
	logs := newLogPrinter(prefixed(out, component), told, false, false)
	logs.terminal = cli.Terminal(out)
	logs.stateTold = true
	events := &eventPrinter{out: told, verbose: verbose, losses: logs.losses, stateTold: true}
	return &devPrinter{out: out, notes: told, json: asJSON, component: component, logs: logs, events: events}
}

// devLine is one line of -o json.
type devLine struct {
	Component string `json:"component,omitempty"`

	Sync *devsync.Event `json:"sync,omitempty"`
	Log  *logLine       `json:"log,omitempty"`
	// State is that of the instance and has no component.
	State *devState `json:"state,omitempty"`
}

type logLine struct {
	Type   client.LogEventType `json:"type"`
	Record any                 `json:"record,omitempty"`
	Reason string              `json:"reason,omitempty"`
}

func (d *devPrinter) event(e devsync.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.json {
		d.events.print(e)
		return
	}
	d.failed = errors.Join(d.failed, d.line(devLine{Sync: &e}))
}

func (d *devPrinter) log(e client.LogEvent) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	if !d.json {
		return d.logs.print(e)
	}
	l := &logLine{Type: e.Type}
	if e.Type == client.LogOutput || e.Type == client.LogGap {
		l.Record = e.Record
	}
	if e.Err != nil {
		l.Reason = e.Err.Error()
	}
	if e.Message != "" {
		l.Reason = e.Message
	}
	return d.line(devLine{Log: l})
}

func (d *devPrinter) line(l devLine) error {
	l.Component = d.component
	text, err := json.Marshal(l)
	if err == nil {
		_, err = d.out.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
