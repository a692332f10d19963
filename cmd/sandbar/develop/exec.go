// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// asExec gives an error the exit code that tells it from one of the command.
func asExec(err error) error {
	var (
		exit *cli.ExitError
		call *client.CallError
	)
	switch {
	case err == nil, errors.As(err, &exit), cli.IsUsage(err):
		return err
	case errors.As(err, &call) && call.ExitCode != 0:
		return &cli.ExecError{Err: err, Code: call.ExitCode}
	default:
		return &cli.ExecError{Err: err, Code: cli.ExitOurs}
	}
}

func newExecCommand(s *target) *cobra.Command {
	var (
		opts       client.ExecOptions
		withInput  bool
		withScreen bool
		list       bool
		output     string
	)
	cmd := &cobra.Command{
		Use:   "exec [KIND/]NAME [-it] -- COMMAND [ARG...]",
		Short: "Run a command in a sandbox, beside its process; exits with the command's exit code",
		Long: `Run a command in a sandbox, beside its process. It exits with the command's exit code; with 127 if
there is no such program, 126 if it cannot be run, 125 if sandbar itself failed, and 130 after an
interrupt that ended it.

A lost connection is told, and made again; the command goes on meanwhile, and its output is not
lost. An interrupt goes to the command; while the connection is lost, it ends sandbar, and the
command goes on for up to 5 minutes. When nobody takes the output any more, as in a pipe to head,
the command is ended. --list shows the commands, sandbar attach returns to one, and sandbar kill
ends one.

With -i and a stdin that is not a terminal, -t does not count: what is piped reaches the command as it
is, and so does its end.

In a kind whose exec is its pod's own, like redis, it works as kubectl exec does, but for what is left
in the pod: a lost connection ends the command there, with all that it has started, and so does an
interrupt without -t. What is to stay is begun with env -u SANDBAR_EXEC.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if list && len(args) == 1 && cmd.ArgsLenAtDash() < 0 {
				return nil
			}
			if list {
				return &cli.UsageError{Err: fmt.Errorf("exec --list takes NAME and no command; see %s --help", cmd.CommandPath())}
			}
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return &cli.UsageError{Err: fmt.Errorf("exec takes NAME, -- and a command%s; see %s --help", withDashes(cmd, args), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := cli.JSONOutput(output)
			if err != nil {
				return err
			}
			i, err := s.Instance(cmd.Context(), args[0], "exec")
			if err != nil {
				return asExec(err)
			}
			if list {
				return asExec(listCommands(cmd, i, asJSON))
			}
			opts.Command, opts.TTY = args[1:], withScreen
			if withInput {
				opts.Stdin = cmd.InOrStdin()
			}
			if withInput && withScreen && !terminalIn(opts.Stdin) {
				// As kubectl does. A terminal would echo what is piped, and end its lines in its own way.
				opts.TTY = false
				fmt.Fprintln(cmd.ErrOrStderr(), "sandbar: stdin is not a terminal, so the command gets none: -t does not count")
			}
			opts.Stdout, opts.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			err = runCommand(cmd.Context(), opts, i.Exec, cmd.ErrOrStderr())
			explainScript(cmd.Context(), i, opts, err, cmd.ErrOrStderr())
			return asExec(err)
		},
	}
	cmd.Flags().BoolVarP(&withInput, "stdin", "i", false, "pass stdin to the command")
	cmd.Flags().BoolVarP(&withScreen, "tty", "t", false, "give the command a terminal")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "directory of the sandbox's files to run it in")
	cmd.Flags().StringVarP(&opts.Container, "container", "c", "", "container of a pod without a runner; its first if empty")
	cmd.Flags().BoolVar(&list, "list", false, "list the commands of the sandbox instead of running one")
	cli.AddOutputFlag(cmd, &output)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// Of a command without -- before it, the flags are taken for those of exec.
		if args := cmd.Flags().Args(); len(args) > 1 {
			return &cli.UsageError{Err: fmt.Errorf("%w%s; see %s --help", err, withDashes(cmd, args), cmd.CommandPath())}
		}
		return cmd.Root().FlagErrorFunc()(cmd, err)
	})
	return cmd
}

// withDashes says how a command is written that has no -- before it; nothing if there is no command.
func withDashes(cmd *cobra.Command, args []string) string {
	if len(args) < 2 || cmd.ArgsLenAtDash() >= 0 {
		return ""
	}
	return fmt.Sprintf("; write -- before the command: %s %s -- %s", cmd.CommandPath(), args[0], args[1])
}

// runCommand runs a command, or attaches to one, with this process's terminal and signals.
func runCommand(ctx context.Context, opts client.ExecOptions, run func(context.Context, client.ExecOptions) (int, error), notes io.Writer) error {
	// Interrupts are the command's: main's context ends with the first one.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var lost atomic.Bool
	if opts.TTY {
		if stdin, ok := opts.Stdin.(*os.File); ok && cli.IsTerminal(stdin) {
			fd := int(stdin.Fd())
			before, err := term.MakeRaw(fd)
			if err != nil {
				return fmt.Errorf("preparing the terminal: %w", err)
			}
			defer func() { _ = term.Restore(fd, before) }()
			opts.Size = sizeOf(fd)
			resize := make(chan client.TerminalSize, 1)
			opts.Resize = resize
			defer onResize(ctx, fd, func() {
				select {
				case resize <- sizeOf(fd):
				default:
				}
			})()
			opts.Stdin = &interruptible{Reader: stdin, lost: &lost, cancel: cancel}
		}
	}
	signals := make(chan string, 8)
	opts.Signals = signals
	defer onSignal(ctx, func(sig os.Signal) {
		if lost.Load() {
			cancel()
			return
		}
		select {
		case signals <- signalName(sig):
		default:
		}
	}, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)()
	// A pipe whose reader has gone is an error of writing, upon which the command is ended, and not the
	// end of this process, after which it would go on.
	defer onSignal(ctx, func(os.Signal) {}, syscall.SIGPIPE)()
	said := ""
	opts.OnState = func(state client.ExecState) {
		lost.Store(state.Lost)
		end := "\r\n" // the terminal may be raw
		if !state.Lost && state.Gap == 0 {
			said = ""
		}
		switch {
		case state.Lost && cli.ReasonIn(state.Err) == said:
		case state.Gap > 0:
			fmt.Fprintf(notes, "[sandbar: %d bytes of output were dropped]%s", state.Gap, end)
		case state.Lost:
			said = cli.ReasonIn(state.Err)
			fmt.Fprintf(notes, "[sandbar: the connection is lost (%s); it is made again as soon as possible, Ctrl-C ends]%s", said, end)
		default:
			fmt.Fprintf(notes, "[sandbar: the command is attached again]%s", end)
		}
	}
	code, err := run(ctx, opts)
	var interrupted *client.InterruptedError
	switch {
	case errors.Is(err, syscall.EPIPE):
		return &cli.ExitError{Code: cli.ExitBrokenPipe}
	case err != nil && lost.Load() && ctx.Err() != nil:
		fmt.Fprint(notes, "[sandbar: the command goes on for up to 5 minutes: sandbar attach returns to it, sandbar kill ends it]\n")
		return &cli.ExitError{Code: cli.ExitInterrupted}
	case err != nil && (ctx.Err() != nil || errors.As(err, &interrupted)):
		return &cli.ExitError{Code: cli.ExitInterrupted}
	case err != nil:
		return err
	case code != 0:
		return &cli.ExitError{Code: code}
	}
	return nil
}

// terminalIn reports whether an input is a terminal.
func terminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && cli.IsTerminal(f)
}

// interruptible is the input of a raw terminal, where Ctrl-C is a byte: while there is no
// connection to carry it, it ends the program.
type interruptible struct {
	io.Reader
	lost   *atomic.Bool
	cancel func()
}

func (r *interruptible) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.lost.Load() && bytes.IndexByte(p[:n], 0x03) >= 0 {
		r.cancel()
		return 0, errors.New("interrupted")
	}
	return n, err
}

func sizeOf(fd int) client.TerminalSize {
	width, height, err := term.GetSize(fd)
	if err != nil {
		return client.TerminalSize{}
	}
	return client.TerminalSize{Width: uint16(width), Height: uint16(height)}
}

// onSignal calls do for each signal, until the context ends or the function it returns is called.
func onSignal(ctx context.Context, do func(os.Signal), which ...os.Signal) (stop func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, which...)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case sig := <-ch:
				do(sig)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(ch)
		cancel()
	}
}
