// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// plan is what a batch does to the tree as it is now. It is made without changing
// anything, and finds all conflicts, not the first one.
type plan struct {
	batch     *Batch
	ops       []op
	conflicts []syncwire.Conflict
	unchanged int
	growth    usage

	// gone has the paths that the batch takes away, trees the ones of them that go
	// with all below; made the directories that are made on the way.
	gone, trees, made map[string]bool
	at                walker
}

// plan checks the batch against the tree.
func (b *Batch) plan() (*plan, error) {
	p := &plan{
		batch: b, gone: map[string]bool{}, trees: map[string]bool{}, made: map[string]bool{},
		at: walker{workspace: b.workspace},
	}
	defer p.at.close()
	for i := range b.entries {
		if e := &b.entries[i]; e.deletes() {
			p.gone[e.path] = true
			p.trees[e.path] = e.action == removeTree
		}
	}
	for i := range b.entries {
		if err := p.add(i); err != nil {
			return nil, err
		}
	}
	if len(p.conflicts) > 0 {
		return nil, conflictError(p.conflicts)
	}
	// Deletes make room, the deepest directories first; then what is put.
	slices.SortStableFunc(p.ops, func(x, y op) int {
		if x.Kind == opRemoveDir && y.Kind == opRemoveDir {
			return cmp.Compare(depth(y.Path), depth(x.Path))
		}
		return cmp.Compare(x.Kind, y.Kind)
	})
	return p, nil
}

func (p *plan) add(i int) error {
	e := &p.batch.entries[i]
	var err error
	if e.deletes() {
		err = p.delete(i, e)
	} else {
		err = p.put(i, e)
	}
	if err == nil {
		return nil
	}
	known := failed(e.path, "looking up the path", err)
	if known.Code != CodeConflict {
		return known
	}
	p.conflict(e, known.Message, nil)
	return nil
}

// conflict notes that an entry cannot be applied.
func (p *plan) conflict(e *entry, reason string, actual *syncwire.Entry) {
	c := syncwire.Conflict{Path: e.path, Reason: reason, Expected: e.expect, Actual: actual}
	if !e.deletes() {
		c.Wanted = &e.wanted
	}
	p.conflicts = append(p.conflicts, c)
}

// below tells whether path lies under a tree that the batch takes away.
func (p *plan) below(path string) bool {
	for parent := range ancestors(path) {
		if p.trees[parent] {
			return true
		}
	}
	return false
}

func (p *plan) delete(i int, e *entry) error {
	if p.below(e.path) {
		return nil
	}
	actual := syncwire.Entry{Type: syncwire.None}
	var st unix.Stat_t
	parents, name := split(e.path)
	d, err := p.at.walk(parents)
	if err == nil {
		actual, st, err = p.look(e, d, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if actual.Type == syncwire.None {
		return nil // as wanted, whoever did it
	}
	if e.expect != nil && !actual.Same(*e.expect) {
		p.conflict(e, "it is not what the client expected", &actual)
		return nil
	}
	switch {
	case actual.Type == syncwire.Dir && e.action == remove:
		extra, err := p.keeps(d, name, e.path)
		if err != nil {
			return err
		}
		if extra != "" {
			p.conflict(e, fmt.Sprintf("the directory has %q, which the batch does not delete", extra), &actual)
			return nil
		}
		p.ops = append(p.ops, op{Kind: opRemoveDir, Path: e.path, N: i})
	default:
		p.ops = append(p.ops, op{Kind: opDelete, Path: e.path, N: i, seen: seenIf(e.expect, &st)})
	}
	p.growth.files--
	p.growth.bytes -= actual.Size
	return nil
}

// keeps returns a name in the directory that the batch does not take away.
func (p *plan) keeps(d directory, name, path string) (string, error) {
	sub, err := d.openDir(name)
	if err != nil {
		return "", err
	}
	defer sub.close()
	for {
		names, err := sub.file.Readdirnames(removeChunk)
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		for _, child := range names {
			if !p.gone[path+"/"+child] {
				return child, nil
			}
		}
	}
}

// look is [Workspace.look], reading a file only for an entry that compares it.
func (p *plan) look(e *entry, d directory, name string) (syncwire.Entry, unix.Stat_t, error) {
	st, err := d.lstat(name)
	if err == nil && e.expect == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		(e.deletes() || st.Size != e.wanted.Size) {
		return syncwire.Entry{
			Type: syncwire.File, Size: st.Size, Executable: st.Mode&0o111 != 0,
		}, st, nil
	}
	return p.batch.workspace.look(d, name)
}

func (p *plan) put(i int, e *entry) error {
	d, found, err := p.parents(i, e.path)
	if err != nil {
		return err
	}
	actual := syncwire.Entry{Type: syncwire.None}
	var st unix.Stat_t
	if found && !p.gone[e.path] {
		_, name := split(e.path)
		if actual, st, err = p.look(e, d, name); err != nil {
			return err
		}
	}
	if p.made[e.path] {
		return nil // a directory that another entry needed before
	}
	if e.action == putFile && e.executable == nil && actual.Type == syncwire.File {
		e.wanted.Executable = actual.Executable
	}
	switch {
	case e.expect != nil && !actual.Same(*e.expect):
		// What is already as wanted is nobody's loss: the batch may have been
		// applied before, and its answer lost.
		if actual.Same(e.wanted) {
			p.unchanged++
			return nil
		}
		p.conflict(e, "it is not what the client expected", &actual)
		return nil
	case actual.Same(e.wanted):
		p.unchanged++
		return nil
	case actual.Type == syncwire.Dir:
		p.conflict(e, syncwire.ReasonDirectoryThere, &actual)
		return nil
	case e.action == putDir && actual.Type != syncwire.None:
		p.conflict(e, syncwire.ReasonFileThere, &actual)
		return nil
	}
	p.growth.bytes += e.wanted.Size - actual.Size
	if actual.Type == syncwire.None {
		p.growth.files++
	}
	if e.action == putDir {
		p.made[e.path] = true
		p.ops = append(p.ops, op{Kind: opMakeDir, Path: e.path, N: i, named: true})
		return nil
	}
	if e.wanted.Executable {
		if err := p.batch.makeExecutable(newName(i)); err != nil {
			return err
		}
	}
	p.ops = append(p.ops, op{
		Kind: opPut, Path: e.path, N: i, Had: actual.Type != syncwire.None, seen: seenIf(e.expect, &st),
	})
	return nil
}

// parents opens the directory of path, or plans to make what is missing of it.
func (p *plan) parents(i int, path string) (d directory, found bool, err error) {
	missing := false
	for parent := range ancestors(path) {
		if !missing && !p.made[parent] && !p.gone[parent] && !p.below(parent) {
			names, name := split(parent)
			if _, err = p.at.walk(append(names, name)); err == nil {
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return directory{}, false, err
			}
		}
		missing = true
		if !p.made[parent] {
			p.made[parent] = true
			p.growth.files++
			p.ops = append(p.ops, op{Kind: opMakeDir, Path: parent, N: i})
		}
	}
	if missing {
		return directory{}, false, nil
	}
	parents, _ := split(path)
	d, err = p.at.walk(parents)
	return d, err == nil, err
}

// makeExecutable changes the mode through an open file: by name, an app that puts
// a symlink in the file's place would choose what is changed.
func (b *Batch) makeExecutable(staged string) error {
	f, err := b.stage.openRead(staged)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchmod(int(f.Fd()), executableMode), f.Close())
}

// seenIf is what the kernel said of a thing that the client knows, so that a
// change between the plan and the step is noticed. It is nil for a client that
// knows nothing.
func seenIf(expect *syncwire.Entry, st *unix.Stat_t) *unix.Stat_t {
	if expect == nil {
		return nil
	}
	copied := *st
	return &copied
}

// walker opens directories one after the other and keeps the last one, since the
// entries of a batch mostly lie side by side.
type walker struct {
	workspace *Workspace
	names     []string
	dir       directory
}

// walk opens the directory with the names. It is valid until the next walk.
func (w *walker) walk(names []string) (directory, error) {
	if w.dir.file != nil && slices.Equal(w.names, names) {
		return w.dir, nil
	}
	w.close()
	d, err := w.workspace.walk(names)
	if err != nil {
		return directory{}, err
	}
	w.names, w.dir = slices.Clone(names), d
	return d, nil
}

func (w *walker) close() {
	if w.dir.file != nil {
		w.dir.close()
		w.dir = directory{}
	}
}
