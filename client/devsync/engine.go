// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"cmp"
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
	// replaced is how many files were agreed on with the directory whose place another one took, until
	// that one has been read and compared; 0 otherwise.
	replaced int
	// gone: the directory was not at its place since it was read, and may have changed unseen.
	gone bool
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
		opts: opts, root: root, base: b, local: newTree(dir),
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

// Watch keeps both sides alike until the context ends, and then returns nil. A sandbox that cannot
// be reached is tried again for as long as it takes; an error means that nothing helps.
func (e *Engine) Watch(ctx context.Context) error {
	e.watching = true
	defer e.unwatch()
	if err := e.rescan(ctx); err != nil {
		return orEnd(ctx, err)
	}
	ticks := pollers{every: e.opts.PollInterval}
	ticks.read(e.wholeEvery)
	defer ticks.stop()
	defer e.unlisten()
	lost, restless, missing, next := false, false, false, firstPause
	for {
		var retry <-chan time.Time
		err := e.settle(ctx)
		var emptied *EmptiedError
		var unsettled *UnsettledError
		var gone *GoneError
		switch {
		case err == nil:
			if lost {
				e.emit(Event{Type: EventResumed})
			}
			lost, restless, missing, next = false, false, false, firstPause
		case errors.As(err, &gone):
			if !missing {
				e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
			}
			missing, retry = true, time.After(goneEvery)
		case errors.As(err, &emptied):
			e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
		case errors.As(err, &unsettled):
			if !restless {
				e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
			}
			restless, retry, next = true, time.After(next), min(2*next, longestPause)
		case unavailable(err) && ctx.Err() == nil:
			wait := max(next, retryAfter(err))
			e.emit(Event{Type: EventLost, Reason: err.Error(), RetrySeconds: wait.Seconds(), Suspended: isSuspended(err)})
			lost, next = true, min(2*next, longestPause)
			retry = time.After(wait)
		default:
			return orEnd(ctx, err)
		}
		e.tellUnwatched(&ticks)
		e.listen(ctx, &ticks)
		if err := e.await(ctx, &ticks, retry); errors.As(err, &gone) {
			e.all = true // so that settling finds the same, and looks for the directory
		} else if err != nil {
			return orEnd(ctx, err)
		}
	}
}

// await waits until there is something to do.
func (e *Engine) await(ctx context.Context, ticks *pollers, retry <-chan time.Time) error {
	var heard <-chan struct{}
	if e.changes != nil {
		heard = e.changes.wake
	}
	select {
	case <-heard:
		e.hear(ticks)
	case <-ctx.Done():
		return ctx.Err()
	case n := <-e.watcher.changes:
		return e.notice(ctx, n)
	case <-ticks.remote:
		e.relist = true
	case <-ticks.local:
		began := time.Now()
		err := e.rescan(ctx)
		ticks.hasRead(e.wholeEvery, time.Since(began))
		return err
	case <-e.refresh:
		e.relist = true
	case <-retry:
	}
	return nil
}

// tellUnwatched has the directory read every now and then when nobody tells all that changes in it.
func (e *Engine) tellUnwatched(ticks *pollers) {
	switch {
	case e.watcher.failed != nil && ticks.readAlone():
		e.note(fmt.Sprintf("the directory cannot be watched (%v), so it is read every %s; raise fs.inotify.max_user_watches, or ignore directories that need no sync", e.watcher.failed, rescanEvery))
	case e.silent != "" && ticks.readAlone():
		e.note(fmt.Sprintf("%s is on %s, which does not tell of every change, so it is read every %s", e.opts.Dir, e.silent, rescanEvery))
	}
}

// notice takes in what the watcher saw.
func (e *Engine) notice(ctx context.Context, n noticed) error {
	ignores := false
	for path := range n.paths {
		ignores = ignores || isIgnoreFile(path)
		e.dirty[path] = true
	}
	if ignores {
		e.local.asked = time.Time{} // git has another answer
	}
	moved := slices.ContainsFunc(n.moved, func(path string) bool { return e.local.dirs[path] })
	if n.all || moved || ignores || len(n.paths) > manyChanges {
		e.all = e.all || ignores
		return e.rescan(ctx)
	}
	return e.lookAgain(ctx)
}

// unwatch ends the watching.
func (e *Engine) unwatch() {
	if e.watcher != nil {
		e.watcher.close()
	}
	e.watching, e.watcher, e.local.watch, e.local.unwatch = false, nil, nil, nil
}

// rescan looks at everything. A watch begins anew with it: what it reported may have been lost,
// and so the knowledge which directory has which name.
func (e *Engine) rescan(ctx context.Context) error {
	_, err := e.readAll(ctx)
	return err
}

// readAll is rescan, and returns how many paths changed. What was read is one directory, the open one.
func (e *Engine) readAll(ctx context.Context) (int, error) {
	for {
		if err := e.holdRoot(); err != nil {
			return 0, err
		}
		if e.watching {
			e.unwatch()
			w := e.newWatcher(e.opts.Dir)
			e.watching, e.watcher, e.local.watch, e.local.unwatch = true, w, w.add, w.remove
		}
		changed, err := e.local.scan(ctx)
		if same := e.sameRoot(); same != nil && ctx.Err() == nil {
			continue // what was read may be half of each
		}
		if err != nil {
			return 0, err
		}
		clear(e.dirty)
		e.gone = false
		sweep(e.opts.Dir, e.local.dirs)
		if e.local.ruled {
			e.local.ruled = false
			e.ruled()
		}
		if why := e.local.rules.above.untold; why != "" && why != e.untold {
			e.untold = why
			e.note("git does not say which files it tracks (" + why + "): those that a rule ignores stay here")
		}
		e.changed(changed)
		e.tellLeft()
		return len(changed), nil
	}
}

// lookAgain looks at what is dirty.
func (e *Engine) lookAgain(ctx context.Context) error {
	// What is gone comes first: a directory that was renamed loses its watches under the old
	// names before it gets them under the new ones.
	paths := slices.Collect(maps.Keys(e.dirty))
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(e.exists(a), e.exists(b)), cmp.Compare(a, b))
	})
	for _, path := range paths {
		changed, err := e.local.look(ctx, path)
		if err != nil {
			return err
		}
		e.changed(changed)
		e.todo[path] = true
		delete(e.dirty, path)
	}
	if len(paths) > 0 {
		e.tellLeft()
	}
	return nil
}

// exists is 1 for what is there and 0 for what is not.
func (e *Engine) exists(path string) int {
	if _, err := os.Lstat(filepath.Join(e.opts.Dir, path)); err != nil {
		return 0
	}
	return 1
}

func (e *Engine) changed(paths []string) {
	slices.Sort(paths)
	for _, path := range paths {
		e.todo[path] = true
		if isIgnoreFile(path) {
			e.ruled()
		}
		if _, ok := e.conflicts[path]; ok {
			e.relist = true // one way nobody listens: the other side may have given way
		}
		e.emit(Event{Type: EventFile, Path: path, State: Pending, Deleted: e.local.entry(path).Type == syncwire.None})
	}
}

// ruled has everything compared by other rules. Files of the sandbox that did not count may do so now: a
// listing that is as before has them too.
func (e *Engine) ruled() {
	e.all, e.relist = true, true
	if e.remote != nil {
		e.remote.tag = ""
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
	e.moving = p.paths()
	e.state(paths, &p)
	err := e.carry(ctx, &p)
	if errors.Is(err, errReplaced) {
		e.all, e.again, err = true, true, nil // the next round reads the other directory
	}
	e.all = e.all || m.resolved || e.again
	return err
}

// readChanged looks at what is dirty, or at everything when another directory has taken the place.
func (e *Engine) readChanged(ctx context.Context) error {
	if err := e.lookAgain(ctx); err != nil && e.sameRoot() == nil {
		return err
	}
	if err := e.sameRoot(); err != nil || e.gone {
		if err := e.rescan(ctx); err != nil {
			return err
		}
	}
	return e.calm(ctx)
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
		if r, ok := e.refusals[c.path]; ok && r.local.Same(local.entry(c.path)) {
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
	e.refusals[c.path] = stuck{reason: reason, local: e.local.entry(c.path)}
	e.tell(c, FileRefused, reason)
}
