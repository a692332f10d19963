// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// ErrBusy means that another process syncs the directory with the sandbox.
var ErrBusy = errors.New("another sandbar syncs this directory with this sandbox")

// base is what both sides agreed on last, in a file to which each change is appended. A line
// that a crash cut off, and all behind it, is forgotten: an older base costs conflicts, never a
// file.
type base struct {
	entries map[string]syncwire.Entry
	// intents are what batches wanted of which no answer is known. When the sandbox has it, the
	// batch was applied, and what the directory has since is a change and no conflict.
	intents map[string]syncwire.Entry
	// former is what was agreed on with a directory whose place another one took. It is not in the file.
	former map[string]syncwire.Entry

	path string
	lock *os.File
	out  *os.File
	// lines counts what the file has, to know when it is worth writing anew.
	lines int
	buf   bytes.Buffer
}

// line is one line of the file.
type line struct {
	Path string `json:"p"`
	// Entry nil takes the path out.
	Entry  *syncwire.Entry `json:"e,omitempty"`
	Intent bool            `json:"i,omitempty"`
}

// openBase opens the base of a pair: a directory and a workspace, which id names. One process
// has it at a time.
func openBase(dir, id, root string) (*base, error) {
	sum := sha256.Sum256([]byte(id + "\x00" + root))
	b := &base{
		entries: map[string]syncwire.Entry{}, intents: map[string]syncwire.Entry{},
		path: filepath.Join(dir, hex.EncodeToString(sum[:16])),
	}
	if err := b.open(dir); err != nil {
		b.close()
		return nil, fmt.Errorf("opening what was synced before in %s: %w", dir, err)
	}
	return b, nil
}

func (b *base) open(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if b.lock, err = os.OpenFile(b.path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := lock(b.lock); err != nil {
		if errors.Is(err, errLocked) {
			return busy(b.lock)
		}
		return err
	}
	// For the error of the next process. What it says is not trusted with anything: the lock is the kernel's.
	if err := b.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(b.lock, "%d\n", os.Getpid()); err != nil {
		return err
	}
	if err := b.read(); err != nil {
		return err
	}
	return b.rewrite()
}

// busy is ErrBusy with the ID of the process that has the lock, as far as its file says one.
func busy(lock *os.File) error {
	text := make([]byte, 20)
	n, _ := lock.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid <= 0 {
		return fmt.Errorf("%w: end it first", ErrBusy)
	}
	return fmt.Errorf("%w, the process %d: end it first, with Ctrl-C in its terminal or kill %d", ErrBusy, pid, pid)
}

func (b *base) read() error {
	f, err := os.Open(b.path + ".base")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var l line
		if json.Unmarshal(text, &l) != nil {
			return nil
		}
		if CheckName(l.Path) == "" { // else an earlier version synced it
			b.take(l)
		}
	}
}

func (b *base) take(l line) {
	delete(b.former, l.Path)
	switch {
	case l.Intent:
		if l.Entry == nil {
			l.Entry = &syncwire.Entry{Type: syncwire.None}
		}
		b.intents[l.Path] = *l.Entry
	case l.Entry == nil:
		delete(b.entries, l.Path)
		delete(b.intents, l.Path)
	default:
		b.entries[l.Path] = *l.Entry
		delete(b.intents, l.Path)
	}
}

// rewrite writes the file anew, with a line for each path.
func (b *base) rewrite() error {
	if b.out != nil {
		_ = b.out.Close()
	}
	temp, err := os.OpenFile(b.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	b.out, b.lines = temp, 0
	for path, e := range b.entries {
		b.add(line{Path: path, Entry: &e})
	}
	for path, e := range b.intents {
		b.add(line{Path: path, Entry: &e, Intent: true})
	}
	if err := b.flush(); err != nil {
		return err
	}
	// Closed meanwhile: Windows renames no file that is open.
	if err := errors.Join(b.out.Close(), os.Rename(b.path+".new", b.path+".base")); err != nil {
		return err
	}
	b.out, err = os.OpenFile(b.path+".base", os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

func (b *base) add(l line) {
	text, _ := json.Marshal(l) //nolint:errchkjson // strings and numbers
	b.buf.Write(append(text, '\n'))
	b.lines++
}

// set notes what both sides have at a path.
func (b *base) set(path string, e syncwire.Entry) {
	old, ok := b.entries[path]
	_, intended := b.intents[path]
	if !intended && (ok && old.Same(e) || !ok && e.Type == syncwire.None) {
		return
	}
	l := line{Path: path}
	if e.Type != syncwire.None {
		e.Path, e.ModTime = "", nil
		l.Entry = &e
	}
	b.take(l)
	b.add(l)
}

// forget drops all that was agreed on and intended, in the file as well: an intent that stays there would
// be believed by the next run. What was agreed on is former from then on.
func (b *base) forget() error {
	b.former = maps.Clone(b.entries)
	clear(b.entries)
	clear(b.intents)
	b.buf.Reset()
	return b.rewrite()
}

// intend notes what a batch is going to ask for.
func (b *base) intend(path string, e syncwire.Entry) {
	l := line{Path: path, Entry: &e, Intent: true}
	b.take(l)
	b.add(l)
}

// entry is what was agreed on for a path.
func (b *base) entry(path string) syncwire.Entry {
	if e, ok := b.entries[path]; ok {
		return e
	}
	return syncwire.Entry{Type: syncwire.None}
}

// flush writes what was noted. Nothing is fsynced: after a loss of power the base is older.
func (b *base) flush() error {
	if b.lines > 1000+4*(len(b.entries)+len(b.intents)) {
		b.buf.Reset()
		return b.rewrite()
	}
	if b.buf.Len() == 0 {
		return nil
	}
	_, err := b.out.Write(b.buf.Bytes())
	b.buf.Reset()
	return err
}

func (b *base) close() {
	if b.out != nil {
		_ = b.out.Close()
	}
	if b.lock != nil {
		// Not by closing alone: a process that is being started has a copy for a moment.
		_ = unlock(b.lock)
		_ = b.lock.Close()
	}
}

// loadCache reads the nodes of an earlier run; none if there are none.
func (b *base) loadCache() map[string]node {
	cache := map[string]node{}
	text, err := os.ReadFile(b.path + ".cache")
	if err != nil || json.Unmarshal(text, &cache) != nil {
		return nil
	}
	return cache
}

// saveCache keeps nodes for the next run. Failing costs time, and nothing else.
func (b *base) saveCache(nodes map[string]node) {
	text, err := json.Marshal(nodes)
	if err != nil || os.WriteFile(b.path+".cache.new", text, 0o600) != nil {
		return
	}
	_ = os.Rename(b.path+".cache.new", b.path+".cache")
}
