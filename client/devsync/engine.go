// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// Options of an Engine.
type Options struct {
	// Dir is the directory. It must exist.
	Dir string
	// Project is the directory that a person named, Dir or one above it: what is ignored there is ignored in
	// Dir. Defaults to Dir. The rules of a git work tree that Dir lies in count in any case.
	Project string
	// Remote is the workspace, and ID names it for good: the instance's UID, and the component.
	// What was agreed on with one workspace says nothing of another.
	Remote Remote
	ID     string
	// StateDir keeps what was agreed on; defaults to sandbar/sync in the person's cache folder.
	StateDir string

	// TwoWay also brings back what the sandbox changed.
	TwoWay bool
	// AllowEmpty lets an empty directory delete all files of the workspace.
	AllowEmpty bool
	// Broad lets Dir be /, the home directory or a directory above one, or above a git repository,
	// which Open refuses otherwise with a *BroadError.
	Broad bool
	// Secrets are patterns, as in a .gitignore, of what is sent although it may be a secret: keys,
	// credentials, .env files. Without one they stay here and are told as FileWithheld.
	Secrets []string
	// Prefer decides conflicts, at PreferPaths and below, or everywhere if there are none.
	Prefer      Side
	PreferPaths []string
	// Restart says when a batch restarts the process: never, start (when it does not run or does
	// not stay up), auto (also when the batch changed something, for a process that does not
	// notice changed files itself) or always. Default start.
	Restart string

	// PollInterval is how often a two-way Watch asks a sandbox that cannot tell by itself what
	// changes in it. Default 2 s.
	PollInterval time.Duration
	// OnEvent is told what happens, by one goroutine at a time; nil for nobody.
	OnEvent func(Event)
}

const (
	defaultPoll = 2 * time.Second
	// maxRounds bounds how often a settling compares anew because one of the sides changed
	// meanwhile. More are an UnsettledError.
	maxRounds = 20
	// maxStuck is how often the sandbox may find something in the way that its listing does
	// not show.
	maxStuck = 2
	// manyChanges is from where on reading the whole directory is cheaper than looking at each.
	manyChanges = 1000
	// Pauses before a sandbox that could not be reached is tried again.
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
	// onceTries is how often Sync tries to reach it.
	onceTries = 5
)

// stuck is a change that the sandbox did not accept, and for which content.
type stuck struct {
	times  int
	reason string
	local  syncwire.Entry
	// remote is what the sandbox had when it was refused; of what it did not accept it is not kept.
	remote syncwire.Entry
}

// Engine keeps a directory and a workspace alike. It is used by one goroutine, but for Refresh.
type Engine struct {
	opts   Options
	root   *os.Root
	local  *tree
	remote *remoteTree
	base   *base
	chunks chunkLists

	// dirty are paths to look at again, todo those to compare; all means every path.
	dirty, todo map[string]bool
	all         bool
	// relist: the workspace has to be listed; again: something is left to do now.
	relist, again bool
	// whole: no content may be taken for known in the next batch.
	whole bool
	// owed: the last batch that was applied said later.
	owed bool
	// skipped is how many files of the sandbox were told to be left out.
	skipped int
	// replaced is how many files were agreed on with the directory whose place another one took, until
	// that one has been read and compared; 0 otherwise.
	replaced int
	// gone: the directory was not at its place since it was read, and may have changed unseen.
	gone bool
	// named is the directory's path as it was given, and ledTo where it was told to lead.
	named, ledTo string
	// held: a large deletion has been waited for, and is meant.
	held bool
	// untold is why git did not say what it tracks, as far as that was told.
	untold string

	stuck    map[string]stuck
	refusals map[string]stuck
	// left is what of the directory was told to stay here, and why.
	left      map[string]string
	conflicts map[string]Conflict
	differs   map[string]bool
	excluded  []string
	// preferred has those of the PreferPaths that decided something.
	preferred map[string]bool

	// moving are the paths that the last round was to carry over.
	moving []string

	// part is how much of a large file goes in one request; 0 until that was tried.
	part int64

	sent, received int
	bytes          int64
	// settled are the counts that the last EventSettled told.
	settled *[4]int
	refresh chan struct{}

	// revision is that of the newest batch that the workspace has taken.
	revision int64
	changes  *changeStream // of a two-way Watch

	newWatcher func(dir string) *watcher
	// wholeEvery is how often a directory that is watched is read nevertheless.
	wholeEvery time.Duration
	// silent names the directory's file system if it does not tell what others change in it.
	silent   string
	watching bool
	watcher  *watcher // while watching, after the first scan
}

// Open opens a directory and what was agreed on before. It fails with ErrBusy while another
// process has the same pair open. The caller closes the engine.
func Open(opts Options) (*Engine, error) {
	dir, err := resolve(opts.Dir)
	if err == nil && !opts.Broad {
		err = CheckDir(dir)
	}
	if err != nil {
		return nil, err
	}
	named, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory: %w", err)
	}
	opts.Dir = dir
	if opts.Restart == "" {
		opts.Restart = syncwire.RestartStart
	}
	if opts.PollInterval <= 0 {
		opts.PollInterval = defaultPoll
	}
	if opts.StateDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding a place for what was synced: %w", err)
		}
		opts.StateDir = filepath.Join(cache, "sandbar", "sync")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory: %w", err)
	}
	b, err := openBase(opts.StateDir, opts.ID, dir)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	e := &Engine{
		opts: opts, root: root, base: b, local: newTree(dir), named: named, ledTo: dir,
		dirty: map[string]bool{}, todo: map[string]bool{}, all: true, relist: true,
		stuck: map[string]stuck{}, refusals: map[string]stuck{}, conflicts: map[string]Conflict{}, differs: map[string]bool{}, preferred: map[string]bool{},
		refresh: make(chan struct{}, 1), newWatcher: newWatcher, wholeEvery: wholeEvery, silent: silentFileSystem(dir),
	}
	if opts.Project != "" {
		if e.local.project, err = resolve(opts.Project); err != nil {
			e.Close()
			return nil, err
		}
	}
	e.local.cache, e.local.own, e.local.allowed = b.loadCache(), inside(dir, opts.StateDir), allow(opts.Secrets)
	e.local.known = func(path string) (executable, ok bool) {
		agreed, ok := b.entries[path]
		return agreed.Executable, ok && agreed.Type == syncwire.File
	}
	return e, nil
}

// Close keeps what was learned for the next time.
func (e *Engine) Close() {
	if len(e.local.nodes) > 0 {
		e.base.saveCache(e.local.nodes)
	}
	_ = e.base.flush() // an older base costs conflicts, never a file
	e.base.close()
	_ = e.root.Close()
}

// Refresh has a running Watch look at the workspace anew, for example after a lost connection.
// It may be called from any goroutine.
func (e *Engine) Refresh() {
	select {
	case e.refresh <- struct{}{}:
	default:
	}
}

// Sync makes both sides alike once, and returns how things stand. It fails with [*EmptiedError]
// when the directory is empty and was not, with [*UnsettledError] when it comes to no end, and with
// [*RemoteError] when the sandbox cannot be reached after a few tries or refuses the caller.
func (e *Engine) Sync(ctx context.Context) (*Report, error) {
	e.sent, e.received, e.bytes = 0, 0, 0
	e.all, e.relist = true, true
	clear(e.stuck)
	clear(e.refusals)
	if err := e.rescan(ctx); err != nil {
		return nil, err
	}
	for tries, wait := 1, firstPause; ; tries, wait = tries+1, wait*2 {
		err := e.settle(ctx)
		if err == nil {
			return e.report(), nil
		}
		if !unavailable(err) || isSuspended(err) || tries == onceTries || ctx.Err() != nil {
			return nil, err
		}
		wait = max(wait, retryAfter(err))
		e.emit(Event{Type: EventLost, Reason: err.Error(), RetrySeconds: wait.Seconds()})
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// settle carries over what is to be carried over, until nothing is.
func (e *Engine) settle(ctx context.Context) error {
	sent, received, bytes := e.sent, e.received, e.bytes
	for rounds := 0; e.unsettled() && rounds < maxRounds; rounds++ {
		if err := e.round(ctx); err != nil {
			// Whether a batch was applied is not known.
			e.all, e.relist = true, true
			return err
		}
	}
	if err := e.finish(ctx); err != nil {
		return err
	}
	if err := e.base.flush(); err != nil {
		return fmt.Errorf("noting what was synced: %w", err)
	}
	if e.unsettled() {
		return &UnsettledError{Paths: e.moving}
	}
	now := Event{
		Type: EventSettled, Files: e.sent - sent + e.received - received, Bytes: e.bytes - bytes,
		Conflicts: len(e.conflicts), Refused: len(e.refusals) + len(e.local.refused), Withheld: len(e.local.withheld), Differing: len(e.differs),
	}
	rest := [4]int{now.Conflicts, now.Refused, now.Withheld, now.Differing}
	if now.Files > 0 || e.settled == nil || *e.settled != rest {
		e.emit(now)
		e.settled = &rest
	}
	return nil
}

// unsettled reports whether something is left to do.
func (e *Engine) unsettled() bool { return e.again || e.relist || e.all || len(e.todo) > 0 }

// round compares once and carries over what follows.
func (e *Engine) round(ctx context.Context) error {
	e.again = false
	if err := e.readChanged(ctx); err != nil {
		return err
	}
	if e.remote == nil || e.relist {
		if err := e.list(ctx); err != nil {
			return err
		}
	}
	if len(e.local.nodes) == 0 && len(e.base.entries) > 0 && !e.opts.AllowEmpty {
		return &EmptiedError{Dir: e.opts.Dir, Files: len(e.base.entries)}
	}
	m := merge{local: e.local, remote: e.remote, base: e.base, twoWay: e.opts.TwoWay, prefer: e.prefer}
	paths := slices.Collect(maps.Keys(e.todo))
	if e.all {
		paths = append(m.all(), slices.Concat(slices.Collect(maps.Keys(e.conflicts)), slices.Collect(maps.Keys(e.differs)))...)
	}
	e.all = false
	clear(e.todo)
	p := m.run(paths)
	p.push = e.withoutStuck(m.local, p.push, &p)
	p.pull = e.withoutStuck(m.local, p.pull, &p)
	if again, err := e.hold(ctx, &p); err != nil || again {
		return err
	}
	e.moving = p.paths()
	e.state(paths, &p)
	err := e.carry(ctx, &p)
	if errors.Is(err, errReplaced) {
		e.all, e.again, err = true, true, nil // the next round reads the other directory
	}
	e.all = e.all || m.resolved || e.again
	return err
}

// carry does what was planned.
func (e *Engine) carry(ctx context.Context, p *plan) error {
	if err := e.push(ctx, p.push); err != nil {
		return err
	}
	if err := e.tidy(ctx, p.push); err != nil {
		return err
	}
	return e.pull(ctx, p.pull)
}

func (e *Engine) prefer(path string) Side {
	if e.opts.Prefer == Neither || len(e.opts.PreferPaths) == 0 {
		return e.opts.Prefer
	}
	side := Neither
	for _, p := range e.opts.PreferPaths {
		if within(path, p) {
			side, e.preferred[p] = e.opts.Prefer, true
		}
	}
	return side
}

// withoutStuck takes out what was refused or was in the way before, and is the same still.
func (e *Engine) withoutStuck(local *tree, changes []change, p *plan) []change {
	if len(e.stuck)+len(e.refusals) == 0 {
		return changes
	}
	return slices.DeleteFunc(changes, func(c change) bool {
		if r, ok := e.refusals[c.path]; ok && r.local.Same(local.entry(c.path)) && r.remote.Same(e.remote.entry(c.path)) {
			return true
		}
		delete(e.refusals, c.path)
		for path, s := range e.stuck {
			switch {
			case !within(path, c.path) && (c.expect.Type != syncwire.Dir || !within(c.path, path)):
			case !s.local.Same(local.entry(path)):
				delete(e.stuck, path)
			case s.times >= maxStuck:
				p.conflicts = append(p.conflicts, Conflict{
					Path: c.path, Reason: s.reason, Local: local.entry(c.path), Remote: e.remote.entry(c.path), Base: e.base.entry(c.path),
				})
				return true
			}
		}
		return false
	})
}

// state notes what of the compared paths is not alike and stays so.
func (e *Engine) state(paths []string, p *plan) {
	before := e.conflicts
	e.conflicts = maps.Clone(before)
	was := maps.Clone(e.differs)
	for _, path := range paths {
		delete(e.conflicts, path)
		delete(e.differs, path)
	}
	for _, c := range p.conflicts {
		e.conflicts[c.Path] = c
		if old, ok := before[c.Path]; !ok || old.Reason != c.Reason {
			e.emit(Event{Type: EventFile, Path: c.Path, State: FileConflict, Reason: c.Reason})
		}
	}
	for _, path := range p.differs {
		e.differs[path] = true
		if !was[path] {
			e.emit(Event{Type: EventFile, Path: path, State: FileDiffers, Deleted: e.remote.entry(path).Type == syncwire.None})
		}
	}
}

func (e *Engine) refuse(c change, reason string) {
	e.refusals[c.path] = stuck{reason: reason, local: e.local.entry(c.path), remote: e.remote.entry(c.path)}
	e.tell(c, FileRefused, reason)
}
