// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of the local stack: it parses, calls the
// packages that know how in the right order, and prints. Progress goes to
// stderr, what was asked for to stdout.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// Exit codes.
const (
	exitOK = iota
	// exitFailed: what was asked for could not be done; for status, something
	// of the stack does not run.
	exitFailed
	// exitUsage: it is unclear what was asked for.
	exitUsage
)

type subcommand struct {
	name, arguments, summary string
	run                      func(ctx context.Context, s *setup, args []string) error
}

var subcommands []subcommand

func init() {
	subcommands = []subcommand{
		{"up", "", "build what is missing, start, wait until ready; print where things are", up},
		{"online", "", "give the pods of a stack that is up a way to the internet, by slirp4netns", online},
		{"gateway", "DOMAIN", "build Traefik and run it as the Gateway API controller of a stack that is up, for hosts below a domain", gateway},
		{"down", "", "stop everything and leave nothing", down},
		{"status", "[-o json]", "show what runs where; exit code 1 when something does not", status},
		{"restart", "PROCESS", "kill one process, let it come back, wait until the stack is ready again", restart},
		{"env", "", "print shell exports: eval \"$(stack env)\"", env},
		{"exec", "COMMAND…", "run a command inside the node", execInside},
		{"build", "[PART…]", "only build", build},
		{"images", "build [NAME…] | import REF=ARCHIVE… | import NAME…", "make images, bring them into the node", imageCommand},
	}
}

// usageError is an error about how the command was called.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// setup is what the flags have decided.
type setup struct {
	name    string
	dir     state.Dir
	cache   string
	hack    string
	runtime string
	output  string
	// forTests is of up alone.
	forTests bool
}

// notUp is the error of a command about a stack that is not up.
func (s *setup) notUp() error { return fmt.Errorf("stack %s is not up: make up STACK=%[1]s", s.name) }

func (s *setup) root() string { return filepath.Dir(s.hack) }

// Run runs the command line and returns the exit code.
func Run(args []string) int {
	// The first process of a unit is this program too.
	if len(args) == 2 && args[0] == "unit-init" {
		fmt.Fprintln(os.Stderr, unit.Init(args[1]))
		return exitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := dispatch(ctx, args)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(os.Stderr, "stack: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(os.Stderr, `"stack help" lists the commands and flags`)
		return exitUsage
	}
	return exitFailed
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usageError{"which command?"}
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printUsage(os.Stdout)
		return nil
	}
	for _, c := range subcommands {
		if c.name == args[0] {
			s, rest, err := parse(c.name, args[1:])
			if err != nil {
				return err
			}
			return c.run(ctx, s, rest)
		}
	}
	return usageError{fmt.Sprintf("there is no command %q", args[0])}
}

func parse(name string, args []string) (*setup, []string, error) {
	s := &setup{}
	var stateRoot string
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.name, "name", envOr("SANDBAR_STACK", "dev"), "")
	flags.StringVar(&stateRoot, "state", "", "")
	flags.StringVar(&s.runtime, "runtime", "", "")
	flags.StringVar(&s.output, "o", "", "")
	flags.BoolVar(&s.forTests, "for-tests", false, "")
	rest, err := parseAnywhere(flags, args, name == "exec")
	if err != nil {
		return nil, nil, usageError{err.Error()}
	}
	if s.dir, err = state.DirFor(stateRoot, s.name); err != nil {
		return nil, nil, usageError{err.Error()}
	}
	if s.cache, err = state.CacheDir(); err != nil {
		return nil, nil, err
	}
	if s.hack, err = parts.HackDir(); err != nil {
		return nil, nil, err
	}
	return s, rest, nil
}

// parseAnywhere takes flags from between the arguments too, unless what follows
// the first argument belongs to another program.
func parseAnywhere(flags *flag.FlagSet, args []string, firstEnds bool) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		args = flags.Args()
		if firstEnds || len(args) == 0 {
			return append(rest, args...), nil
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

func envOr(variable, fallback string) string {
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return fallback
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "stack runs a real kcp, a real Kubernetes node and kro on this machine.\n\n")
	for _, c := range subcommands {
		fmt.Fprintf(w, "  stack %s [flags] %s\n        %s\n", c.name, c.arguments, c.summary)
	}
	fmt.Fprint(w, `
Flags:
  --name NAME      which stack; several can run side by side ($SANDBAR_STACK, or dev)
  --state DIR      folder of the stacks ($SANDBAR_STATE, or ~/.local/state); NAME below DIR/sandbar
  --runtime KIND   node (own node, needs root), kind (needs Docker and kind; not tried on
                   the machine this was written on) or external ($RUNTIME_KUBECONFIG)
  --for-tests      of up: kcp's etcd does not wait for the disk, so that a crash of the machine
                   loses what was written, and the node offers two CPUs on every machine

Environment:
  SANDBAR_CACHE       folder of what is built once ($XDG_CACHE_HOME, or ~/.cache)
  RUNTIME_KUBECONFIG  use this cluster, with kro installed, instead of an own node;
                      images are not brought into it
`)
}
