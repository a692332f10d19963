// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// aftermath is what a change asks for.
type aftermath struct {
	// rules are those of the Template that it sets off.
	rules []int
	// restartFor are the modes in which it restarts an app that runs.
	restartFor []restartMode
}

// afterSync is what a batch asks for. The first files are a reason for start too: a development
// server that was started in an empty workspace runs, without its configuration and at another
// port. With rules, automatic means that they know best when to restart an app that runs.
func (s *server) afterSync(result workspace.Result) aftermath {
	paths := slices.Concat(result.Changed, result.Deleted)
	after := aftermath{rules: s.reloader.match(paths)}
	if len(paths) > 0 && result.Revision == 1 {
		after.restartFor = append(after.restartFor, restartStart)
	}
	if len(paths) > 0 && len(s.reloader.rules) == 0 {
		after.restartFor = append(after.restartFor, restartAuto)
	}
	return after
}

// deferred is what syncs that said later have left to the next that does not: a project that
// comes in several batches is not to be installed or started from a part of its files.
type deferred struct {
	mu sync.Mutex
	aftermath
}

// add puts what a change asks for to what waits.
func (d *deferred) add(after aftermath) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aftermath = d.with(after)
}

// take takes all that waits, and what a change asks for.
func (d *deferred) take(after aftermath) aftermath {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := d.with(after)
	d.aftermath = aftermath{}
	return due
}

func (a aftermath) with(b aftermath) aftermath {
	return aftermath{rules: union(a.rules, b.rules), restartFor: union(a.restartFor, b.restartFor)}
}

func union[T cmp.Ordered](a, b []T) []T {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// follow does what follows a sync and those before it that said later: the Template's rules, or
// else what the caller asked for.
func (s *server) follow(ctx context.Context, mode restartMode, after aftermath, reply *syncwire.Reply) {
	if mode == restartLater {
		s.deferred.add(after)
		return
	}
	due := s.deferred.take(after)
	if job := s.reloader.begin(due.rules, s.needsRestart(mode, due.restartFor)); job != nil {
		reply.Reload = job.wait(ctx)
		reply.Restarted = reply.Reload.Restarted
		return
	}
	reply.Restarted, reply.RestartError = s.restartAfter(ctx, mode, due.restartFor)
}

// restartAfter restarts the app after a change, if asked.
func (s *server) restartAfter(ctx context.Context, mode restartMode, on []restartMode) (bool, *syncwire.Error) {
	if !s.needsRestart(mode, on) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, defaultRestartTimeout)
	defer cancel()
	if _, err := s.supervisor.Restart(ctx); err != nil {
		return false, classify(err).wire()
	}
	return true, nil
}

// needsRestart decides after a change that restarts an app that runs in the modes on. One that does
// not run or does not stay up is started in both: the change may be the cure, and it need not wait
// out a backoff for it.
func (s *server) needsRestart(mode restartMode, on []restartMode) bool {
	switch mode {
	case restartAlways:
		return true
	case restartStart, restartAuto:
		app := s.supervisor.Status()
		down := app.State != supervise.Running || app.Crashing(time.Now())
		return app.State != supervise.NotConfigured && (down || slices.Contains(on, mode))
	default:
		return false
	}
}
