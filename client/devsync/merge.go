// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Side is one of the two sides.
type Side string

// The sides.
const (
	// Neither leaves conflicts as they are.
	Neither Side = ""
	Local   Side = "local"
	Remotes Side = "remote"
)

// change makes one side as the other is.
type change struct {
	path string
	// expect is what the side to change has, want what it gets; none is a deletion.
	expect, want syncwire.Entry
	// tree takes away a directory with all in it, because somebody prefers what takes its place.
	tree bool
}

// plan is what follows from the three trees.
type plan struct {
	push, pull []change
	conflicts  []Conflict
	differs    []string
}

// paths are those that change on a side, in order.
func (p *plan) paths() []string {
	paths := make([]string, 0, len(p.push)+len(p.pull))
	for _, c := range slices.Concat(p.push, p.pull) {
		paths = append(paths, c.path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// remoteTree is what the workspace has, as far as it is known.
type remoteTree struct {
	entries map[string]syncwire.Entry
	dirs    map[string]bool
	// refused has names that must not come into the directory.
	refused map[string]string
	tag     string
}

func newRemoteTree() *remoteTree {
	return &remoteTree{entries: map[string]syncwire.Entry{}, dirs: map[string]bool{}, refused: map[string]string{}}
}

func (r *remoteTree) entry(path string) syncwire.Entry {
	if e, ok := r.entries[path]; ok {
		return e
	}
	return syncwire.Entry{Type: syncwire.None}
}

// set notes what a batch has made of a path.
func (r *remoteTree) set(path string, e syncwire.Entry) {
	if e.Type == syncwire.None {
		delete(r.entries, path)
		return
	}
	r.entries[path] = e
	delete(r.dirs, path)
	for dir := range ancestors(path) {
		r.dirs[dir] = true
	}
}

// merge compares the trees at the given paths.
type merge struct {
	local  *tree
	remote *remoteTree
	base   *base
	twoWay bool
	// prefer decides a conflict.
	prefer func(path string) Side

	plan   plan
	pushed map[string]int // index in plan.push
	pulled map[string]int
	// yielded are paths whose change gave way to the preferred side, and resolved tells that a
	// preferred side took a place: both have the trees compared again.
	yielded  []string
	resolved bool
}

func (m *merge) run(paths []string) plan {
	m.pushed, m.pulled = map[string]int{}, map[string]int{}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		m.path(path)
	}
	m.plan.push = m.place(m.plan.push, m.pushed, m.roomThere, m.remote.entry)
	m.plan.pull = m.place(m.plan.pull, m.pulled, m.roomHere, m.local.entry)
	// Who is preferred against a change takes its place; what depends on it follows when the
	// trees are compared again.
	for _, path := range m.yielded {
		m.conflict(path, "")
	}
	slices.SortFunc(m.plan.conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	return m.plan
}

// all is every path that any tree has.
func (m *merge) all() []string {
	seen := make(map[string]bool, len(m.local.nodes)+16)
	for path := range m.local.nodes {
		seen[path] = true
	}
	for path := range m.remote.entries {
		seen[path] = true
	}
	for path := range m.base.entries {
		seen[path] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// path decides about one path.
func (m *merge) path(path string) {
	l, r, b := m.local.entry(path), m.remote.entry(path), m.base.entry(path)
	if _, here := m.local.nodes[path]; !here {
		if m.local.ignored(path) {
			// It does not count any more; that is no deletion.
			m.base.set(path, syncwire.Entry{Type: syncwire.None})
			return
		}
		if m.local.unknown(path) {
			return
		}
	}
	if intent, ok := m.base.intents[path]; ok && r.Same(intent) {
		b = intent // the batch was applied, and its answer lost
		m.base.set(path, b)
	}
	if l.Same(r) {
		m.base.set(path, l)
		return
	}
	if former, ok := m.base.former[path]; ok && !m.twoWay && l.Type != syncwire.None && r.Same(former) {
		// Another directory took the place of the one that sent this, and the sandbox has left it as it was: what the
		// directory has now is a change. Where files travel both ways either may be what a person wants to keep.
		b = former
	}
	here, there := !l.Same(b), !r.Same(b)
	switch {
	case here && !there:
		m.send(path)
	case there && !here && m.twoWay:
		m.receive(path)
	case there && !here && b.Type == syncwire.None && !m.local.dirs[path]:
		// The sandbox made it, and files do not travel back.
	case there && !here && m.prefer(path) == Neither && !m.local.dirs[path]:
		m.plan.differs = append(m.plan.differs, path)
	default:
		m.conflict(path, reasonFor(l, r))
	}
}

func reasonFor(l, r syncwire.Entry) string {
	switch {
	case l.Type == syncwire.None:
		return "deleted here, changed in the sandbox"
	case r.Type == syncwire.None:
		return "changed here, deleted in the sandbox"
	default:
		return "changed here and in the sandbox"
	}
}

// conflict lists a path, or carries over the preferred side.
func (m *merge) conflict(path, reason string) {
	switch m.prefer(path) {
	case Local:
		m.send(path)
	case Remotes:
		m.receive(path)
	default:
		m.list(path, reason)
	}
}

func (m *merge) list(path, reason string) {
	m.plan.conflicts = append(m.plan.conflicts, Conflict{
		Path: path, Reason: reason, Local: m.local.entry(path), Remote: m.remote.entry(path), Base: m.base.entry(path),
	})
}

func (m *merge) send(path string) {
	m.pushed[path] = len(m.plan.push)
	m.plan.push = append(m.plan.push, change{path: path, expect: m.remote.entry(path), want: m.local.entry(path)})
}

func (m *merge) receive(path string) {
	m.pulled[path] = len(m.plan.pull)
	m.plan.pull = append(m.plan.pull, change{path: path, expect: m.local.entry(path), want: m.remote.entry(path)})
}

// place takes out the changes that have no place on the side that they change: a file stands
// where a directory is needed, or a directory where a file belongs. room adds what has to go
// first, or says what is in the way.
func (m *merge) place(
	changes []change, index map[string]int, room func(change, map[string]int) ([]change, string),
	on func(string) syncwire.Entry,
) []change {
	kept := make([]change, 0, len(changes))
	blocked := map[string]bool{}
	for _, c := range changes { // ordered by path: what is above comes first
		if c.want.Type != syncwire.None {
			inTheWay := ""
			for dir := range ancestors(c.path) {
				if blocked[dir] {
					inTheWay = dir
					break
				}
				if on(dir).Type == syncwire.None {
					continue
				}
				if n, goes := index[dir]; !goes || changes[n].want.Type != syncwire.None {
					inTheWay = dir
					break
				}
			}
			if inTheWay != "" {
				m.list(c.path, fmt.Sprintf("%q is no directory on the other side", inTheWay))
				continue
			}
			first, reason := room(c, index)
			if reason != "" {
				if m.prefer(c.path) == Neither {
					m.list(c.path, reason)
				} else {
					m.yielded, m.resolved = append(m.yielded, c.path), true
				}
				blocked[c.path] = true
				continue
			}
			kept = append(kept, first...)
		}
		kept = append(kept, c)
	}
	return kept
}

// roomThere makes room in the workspace for a file where a directory is.
func (m *merge) roomThere(c change, pushed map[string]int) (first []change, reason string) {
	if !m.remote.dirs[c.path] {
		return nil, ""
	}
	if m.prefer(c.path) == Local {
		m.resolved = true
		return []change{{path: c.path, expect: syncwire.Entry{Type: syncwire.Dir}, tree: true}}, ""
	}
	for path := range m.remote.entries {
		if n, goes := pushed[path]; within(path, c.path) && path != c.path && (!goes || m.plan.push[n].want.Type != syncwire.None) {
			return nil, fmt.Sprintf("it is a directory in the sandbox, with %q in it", path)
		}
	}
	for dir := range m.remote.dirs {
		if within(dir, c.path) {
			first = append(first, change{path: dir, expect: syncwire.Entry{Type: syncwire.Dir}, want: syncwire.Entry{Type: syncwire.None}})
		}
	}
	return first, ""
}

// roomHere is roomThere for the directory; what is in the way there is found when it is removed,
// if it was ignored, and here if it was not.
func (m *merge) roomHere(c change, pulled map[string]int) (first []change, reason string) {
	if !m.local.dirs[c.path] {
		return nil, ""
	}
	if m.prefer(c.path) == Remotes {
		m.resolved = true
		for path := range m.local.below(c.path, true) {
			first = append(first, change{path: path, expect: m.local.entry(path), want: syncwire.Entry{Type: syncwire.None}})
		}
		return first, ""
	}
	for path := range m.local.below(c.path, true) {
		if n, goes := pulled[path]; !goes || m.plan.pull[n].want.Type != syncwire.None {
			return nil, fmt.Sprintf("it is a directory here, with %q in it", path)
		}
	}
	return nil, ""
}
