// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/kcp"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// stopTimeout is how long the kernel may take to end a unit's processes.
const stopTimeout = time.Minute

func down(ctx context.Context, s *setup, args []string) error {
	if len(args) > 0 {
		return usageError{"down takes no arguments"}
	}
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if !s.dir.Exists() {
		progress.Say("stack %s is not up", s.name)
		return os.Remove(s.lockFile())
	}
	if err := s.remove(ctx); err != nil {
		return err
	}
	progress.Say("stack %s is down; nothing of it is left", s.name)
	return os.Remove(s.lockFile())
}

// remove stops the stack's units and removes all that they had: also when only
// part of it was ever there.
func (s *setup) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("still there after %s", stopTimeout))
	defer cancel()
	decided, err := s.dir.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What uses the servers, such as the provider that hack/local records here,
	// goes before them.
	names, err := unit.Recorded(s.dir.Units())
	if err != nil {
		return err
	}
	sort.SliceStable(names, func(i, j int) bool { return !isServer(names[i]) && isServer(names[j]) })
	for _, name := range names {
		if err := s.stopUnit(ctx, name); err != nil {
			return err
		}
	}
	if decided != nil {
		if err := s.removeRuntime(ctx, decided); err != nil {
			return err
		}
	}
	return progress.Step("state removed", func() error { return os.RemoveAll(string(s.dir)) })
}

func isServer(name string) bool { return name == node.UnitName || name == kcp.UnitName }

func (s *setup) stopUnit(ctx context.Context, name string) error {
	running, err := unit.Find(s.dir.Units(), name)
	if err != nil || running == nil {
		return err
	}
	return progress.Step("unit "+name+" stopped", func() error { return running.Stop(ctx) })
}

func (s *setup) removeRuntime(ctx context.Context, decided *state.Stack) error {
	switch decided.Runtime {
	case state.RuntimeKind:
		return s.deleteKind(ctx)
	case state.RuntimeNode:
		n := node.Node{Name: s.name, Dir: s.dir, Net: state.NetworkAt(decided.Index)}
		return progress.Step("links and cgroups removed", func() error {
			return errors.Join(node.ReleaseOwn(s.dir), node.RemoveCgroups(ctx, n.Net.Cgroup()))
		})
	default:
		return nil
	}
}
