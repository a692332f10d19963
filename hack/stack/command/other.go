// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/images"
	"github.com/sandbar-dev/sandbar/hack/stack/kcp"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

func build(ctx context.Context, s *setup, names []string) error {
	chosen, err := parts.Named(names)
	if err != nil {
		return usageError{err.Error()}
	}
	built, err := parts.Build(ctx, s.hack, s.cache, chosen)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		fmt.Printf("%s\t%s\n", p.Name, built[p.Name])
	}
	return nil
}

// restart kills one process as a crash would and waits until the stack is ready
// again: what the recovery tests need.
func restart(ctx context.Context, s *setup, args []string) error {
	if len(args) != 1 {
		return usageError{"restart takes one process"}
	}
	st, err := s.loaded()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	for _, name := range []string{kcp.UnitName, node.UnitName} {
		running, err := unit.Find(s.dir.Units(), name)
		if err != nil {
			return err
		}
		if running == nil {
			continue
		}
		processes, err := running.Processes()
		if err != nil {
			return err
		}
		if _, ok := processes[args[0]]; !ok {
			continue
		}
		if err := progress.Step(args[0]+" restarted", func() error { return running.Restart(ctx, args[0]) }); err != nil {
			return err
		}
		return progress.Step("ready again", func() error { return st.waitReady(ctx, name) })
	}
	return usageError{fmt.Sprintf("nothing called %q runs", args[0])}
}

func (s *stack) waitReady(ctx context.Context, unitName string) error {
	if unitName == kcp.UnitName {
		return s.server().WaitReady(ctx)
	}
	if err := s.node().WaitForAPI(ctx); err != nil {
		return err
	}
	return s.node().WaitReady(ctx)
}

// loaded returns a stack that is up, with the tools it was started with.
func (s *setup) loaded() (*stack, error) {
	decided, err := s.dir.Load()
	if errors.Is(err, os.ErrNotExist) {
		return nil, s.notUp()
	}
	if err != nil {
		return nil, err
	}
	tool := func(_, name string) string { return filepath.Join(decided.Bin, name) }
	return &stack{setup: s, decided: decided, bin: tool}, nil
}

func env(_ context.Context, s *setup, _ []string) error {
	r, err := s.report()
	if errors.Is(err, os.ErrNotExist) {
		return s.notUp()
	}
	if err != nil {
		return err
	}
	exports := map[string]string{
		"PATH":              r.Bin + ":$PATH",
		"SANDBAR_STACK":     s.name,
		"SANDBAR_STACK_DIR": string(s.dir),
		"KCP_URL":           r.KCP,
		"KUBECONFIG":        r.Kubeconfigs["kcp-admin"],
		"KCP_KUBECONFIG":    r.Kubeconfigs["kcp-admin"],
		// Not RUNTIME_KUBECONFIG, which would make the next "up" take the own
		// node for somebody else's cluster.
		"STACK_RUNTIME_KUBECONFIG": r.Kubeconfigs["runtime-admin"],
	}
	names := make([]string, 0, len(exports))
	for name := range exports {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("export %s=\"%s\"\n", name, exports[name])
	}
	return nil
}

func execInside(ctx context.Context, s *setup, args []string) error {
	if len(args) == 0 {
		return usageError{"exec needs a command"}
	}
	running, err := s.runningNode()
	if err != nil {
		return err
	}
	cmd := node.Enter(ctx, running, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %w", args[0], exit)
	}
	return err
}

func (s *setup) runningNode() (*unit.Running, error) {
	running, err := unit.Find(s.dir.Units(), node.UnitName)
	if err == nil && running == nil {
		err = fmt.Errorf("stack %s has no running node of its own", s.name)
	}
	return running, err
}

func imageCommand(ctx context.Context, s *setup, args []string) error {
	if len(args) == 0 {
		return usageError{"images build or images import?"}
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "build":
		_, err := s.buildImages(ctx, rest)
		return err
	case "import":
		return s.importImages(ctx, rest)
	default:
		return usageError{fmt.Sprintf("there is no command images %q", verb)}
	}
}

// buildImages builds images and prints their names and archives.
func (s *setup) buildImages(ctx context.Context, names []string) (map[string]string, error) {
	if len(names) == 0 {
		names = images.Names(true)
	}
	archives, err := s.imagesOf(ctx, names)
	for name, archive := range archives {
		fmt.Printf("%s\t%s\n", images.Ref(name), archive)
	}
	return archives, err
}

// imagesOf builds images, and the parts that go into them, and returns their archives.
func (s *setup) imagesOf(ctx context.Context, names []string) (map[string]string, error) {
	built := parts.Built{}
	if needed := images.Parts(names); len(needed) > 0 {
		chosen, err := parts.Named(needed)
		if err != nil {
			return nil, err
		}
		if built, err = parts.Build(ctx, s.hack, s.cache, chosen); err != nil {
			return nil, err
		}
	}
	return (&stack{setup: s, built: built}).builder().Build(ctx, names, false)
}

// importImages brings archives (REF=ARCHIVE) and images of the stack's own
// (NAME), built when needed, into the node.
func (s *setup) importImages(ctx context.Context, args []string) error {
	refs := map[string]string{}
	var names []string
	for _, arg := range args {
		ref, archive, isArchive := strings.Cut(arg, "=")
		if !isArchive {
			names = append(names, arg)
			continue
		}
		absolute, err := filepath.Abs(archive)
		if err != nil {
			return err
		}
		refs[ref] = absolute
	}
	if len(names) > 0 || len(args) == 0 {
		archives, err := s.buildImages(ctx, names)
		if err != nil {
			return err
		}
		for name, archive := range archives {
			refs[images.Ref(name)] = archive
		}
	}
	st, err := s.loaded()
	if err != nil {
		return err
	}
	running, err := s.runningNode()
	if err != nil {
		return err
	}
	return st.importer(running).Import(ctx, refs)
}
