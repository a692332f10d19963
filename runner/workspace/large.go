// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"encoding/json"
	"sync"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const (
	// hashedBytes bounds a file that is read to learn its digest: a database of many gigabytes that
	// the app writes to would be read again for each listing. The digest of a larger one is known
	// if a batch brought it, and nobody has changed it since.
	hashedBytes = 1 << 30

	largeFile     = "large"
	maxLarge      = 1024
	maxLargeBytes = 1 << 20
)

// large remembers the digests of large files that batches brought, across restarts of the runner.
// The app can write the file that keeps them, and deceive itself.
type large struct {
	mu    sync.Mutex
	known []largeDigest
}

type largeDigest struct {
	Inode  uint64        `json:"inode"`
	Size   int64         `json:"size"`
	Mtime  unix.Timespec `json:"mtime"`
	Ctime  unix.Timespec `json:"ctime"`
	Digest string        `json:"digest"`
}

// load reads what an earlier runner remembered.
func (l *large) load(w *Workspace) {
	text, err := w.LoadState(largeFile, maxLargeBytes)
	if err != nil || json.Unmarshal(text, &l.known) != nil || len(l.known) > maxLarge {
		l.known = nil
	}
}

// digest is empty for a file that is not known, or was changed.
func (l *large) digest(st *unix.Stat_t) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.known {
		if k.Inode == st.Ino && k.Size == st.Size && k.Mtime == st.Mtim && k.Ctime == st.Ctim && syncwire.ValidDigest(k.Digest) {
			return k.Digest
		}
	}
	return ""
}

// add remembers files, and forgets the oldest of those that are too many.
func (l *large) add(w *Workspace, files []largeDigest) {
	if len(files) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = append(l.known, files...)
	l.known = l.known[max(0, len(l.known)-maxLarge):]
	if text, err := json.Marshal(l.known); err == nil {
		_ = w.SaveState(largeFile, text) // else they are forgotten at the next start
	}
}

// large returns what the kernel says of the large files of a batch in its stage, by their number.
func (c *commit) large(entries []entry) map[int]unix.Stat_t {
	staged := map[int]unix.Stat_t{}
	for _, o := range c.ops {
		if o.Kind != opPut || entries[o.N].action != putFile || entries[o.N].wanted.Size <= c.workspace.hashed {
			continue
		}
		if st, err := c.stage.lstat(newName(o.N)); err == nil {
			staged[o.N] = st
		}
	}
	return staged
}

// rememberLarge remembers them where they lie now, unless the app has changed them already.
func (c *commit) rememberLarge(entries []entry, staged map[int]unix.Stat_t) {
	defer c.at.close()
	var files []largeDigest
	for n, before := range staged {
		parents, name := split(entries[n].path)
		d, err := c.at.walk(parents)
		if err != nil {
			continue
		}
		if st, err := d.lstat(name); err == nil && sameFile(&before, &st) {
			files = append(files, largeDigest{st.Ino, st.Size, st.Mtim, st.Ctim, entries[n].wanted.Digest})
		}
	}
	c.workspace.large.add(c.workspace, files)
}
