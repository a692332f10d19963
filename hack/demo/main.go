// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command demo does what a newcomer to Sandbar would do, on a real kcp, a real Kubernetes node
// and kro: as an operator it prepares the provider, as a tenant it binds the API, makes a
// sandbox and works in it. Every step shows the command that a person could type, and runs it.
// It leaves everything running.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandbar-dev/sandbar/hack/local"
)

func main() {
	stack := flag.String("stack", "dev", "name of the local stack")
	byo := flag.Bool("byo", false, "show two providers in one kcp (docs/byo.md) in the place of the whole")
	mesh := flag.Bool("mesh", false, "show copies of services that run already (docs/mesh.md) in the place of the whole")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := run
	switch {
	case *byo:
		show = runBYO
	case *mesh:
		show = runMesh
	}
	if err := show(ctx, *stack); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string) error {
	start := time.Now()
	say := &narrator{out: os.Stdout, terminal: isTerminal(os.Stdout)}

	say.chapter("A real kcp, a real Kubernetes node and kro on this machine")
	if err := up(ctx, say, name); err != nil {
		return err
	}
	stack, err := local.Find(ctx, name)
	if err != nil {
		return err
	}
	say.chapter("The operator prepares the provider and starts it")
	provider, err := stack.StartProvider(ctx, local.ProviderOptions{Log: say})
	if err != nil {
		return err
	}
	say.note("the data plane answers at %s, its log is %s", provider.URL, provider.LogFile())
	say.note("who does what is in %s, a JSON line per request", provider.AuditLog())

	scene, err := newScene(say, stack, provider)
	if err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{
		scene.workspace, scene.commandLine, scene.sandbox, scene.push, scene.logs, scene.preview, scene.edit, scene.restart, scene.show,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	scene.next(name, time.Since(start))
	return nil
}

// up starts the stack; its own progress is shown as it comes. That its sandboxes reach the internet is
// wanted and not needed: the demo's own project has no dependencies.
func up(ctx context.Context, say *narrator, name string) error {
	say.command("make up STACK=" + name)
	if err := runStack(ctx, "up", name); err != nil {
		return errors.Join(errors.New("the local stack did not start; what it printed above says why"), err)
	}
	say.command("make online STACK=" + name)
	if err := runStack(ctx, "online", name); err != nil && ctx.Err() == nil {
		say.note("sandboxes do not reach the internet, so that npm install and the like fail in them; what is printed above says why")
	}
	return context.Cause(ctx)
}

// begin starts the stack for a demo whose sandboxes need no internet.
func begin(ctx context.Context, say *narrator, name string) (*local.Stack, error) {
	say.chapter("A real kcp, a real Kubernetes node and kro on this machine")
	say.command("make up STACK=" + name)
	if err := runStack(ctx, "up", name); err != nil {
		return nil, errors.Join(errors.New("the local stack did not start; what it printed above says why"), err)
	}
	return local.Find(ctx, name)
}

func runStack(ctx context.Context, command, name string) error {
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join("hack", "stack"), "run", ".", command, "--name", name)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
