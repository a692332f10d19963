// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// node is a file or a symlink of the directory.
type node struct {
	Entry syncwire.Entry `json:"e"`
	ID    identity       `json:"id"`
	// Read is when the content was read.
	Read time.Time `json:"r"`
	// Key is true for a file that is a private key.
	Key bool `json:"k,omitempty"`
}

// tree is what lies in the directory and is not ignored.
type tree struct {
	root string
	// project is the directory above root whose rules count as well; root if there is none.
	project string
	rules   *rules
	// ruled is set when rules from above the directory are others than before.
	ruled bool
	// asked is when they were read.
	asked time.Time
	nodes map[string]node
	dirs  map[string]bool
	// refused has what cannot be synced, and why. What is unread is refused for an error: whether it,
	// or what lies below it, was deleted is not known.
	refused map[string]string
	unread  map[string]bool
	// withheld has what may be a secret and stays here, and why; allowed are the exceptions.
	withheld map[string]string
	allowed  allowed
	// own is where the engine keeps its state, if that is in the directory; empty if not. To sync
	// it would change it, without an end.
	own string
	// cache has nodes of an earlier run, whose digests hold while the files' identities do.
	cache map[string]node
	// watch is called for each directory before it is read, so that nothing that happens in it
	// goes unseen; nil if nobody watches.
	watch func(dir string)
	// unwatch is called for a directory that is gone, or is another one. A watch belongs to the
	// directory and not to its name: that of one that was renamed would report names that are no
	// more.
	unwatch func(dir string)
	// bits is true where the file system says which files are programs. Elsewhere known returns the bit that both
	// sides agreed on, and a new file that begins like a script is one.
	bits  bool
	known func(path string) (executable, ok bool)
	// hashed counts the files that were read, by way of buffer.
	hashed int
	buffer []byte
}

func newTree(root string) *tree {
	t := &tree{root: root, project: root, bits: hasExecutableBit}
	t.clear(&above{})
	return t
}

// clear forgets what was found, and not what it is compared with.
func (t *tree) clear(a *above) {
	t.nodes, t.dirs, t.rules = map[string]node{}, map[string]bool{}, newRules(a)
	t.refused, t.unread, t.withheld = map[string]string{}, map[string]bool{}, map[string]string{}
}

// scan looks at everything. It returns the paths that are not as before. The root has to be
// there: a directory that cannot be read is none that is empty.
func (t *tree) scan(ctx context.Context) (changed []string, err error) {
	a := t.rules.above
	if time.Since(t.asked) > aboveEvery {
		if a, err = readAbove(ctx, t.root, t.project); err != nil {
			return nil, err
		}
		t.ruled, t.asked = t.ruled || !a.same(t.rules.above), time.Now()
	}
	before := t.nodes
	if t.cache == nil {
		t.cache = before
	}
	t.clear(a)
	if err := t.directory(ctx, "", before); err != nil {
		t.nodes = before
		return nil, fmt.Errorf("reading %s: %w", t.root, err)
	}
	t.cache = nil
	for path, n := range t.nodes {
		if old, ok := before[path]; !ok || !old.Entry.Same(n.Entry) {
			changed = append(changed, path)
		}
	}
	for path := range before {
		if _, ok := t.nodes[path]; !ok {
			changed = append(changed, path)
		}
	}
	return changed, nil
}

// look looks at one path, and all below it if it is a directory.
func (t *tree) look(ctx context.Context, path string) (changed []string, err error) {
	if CheckName(path) != "" {
		return nil, nil
	}
	before := map[string]node{}
	wasDir := t.dirs[path]
	for p := range t.below(path, wasDir) {
		before[p] = t.nodes[p]
		delete(t.nodes, p)
	}
	if wasDir {
		for p := range t.dirs {
			if within(p, path) {
				delete(t.dirs, p)
				if t.unwatch != nil {
					t.unwatch(p)
				}
			}
		}
	}
	t.forget(path)
	if !t.hidden(path) { // else whatever was there is gone, or does not count any more
		err = t.visit(ctx, path, before)
	}
	if err != nil {
		maps.Copy(t.nodes, before) // what could not be looked at has not been deleted
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(t.root, path), err)
	}
	for p, old := range before {
		if n, ok := t.nodes[p]; !ok || !old.Entry.Same(n.Entry) {
			changed = append(changed, p)
		}
	}
	for p := range t.below(path, t.dirs[path]) {
		if _, ok := before[p]; !ok {
			changed = append(changed, p)
		}
	}
	return changed, nil
}

// forget forgets what was refused or withheld at a path and below it.
func (t *tree) forget(path string) {
	for p := range t.refused {
		if within(p, path) {
			delete(t.refused, p)
			delete(t.unread, p)
		}
	}
	for p := range t.withheld {
		if within(p, path) {
			delete(t.withheld, p)
		}
	}
}

// below yields the paths of nodes at path and, if it is a directory, below it.
func (t *tree) below(path string, dir bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !dir {
			if _, ok := t.nodes[path]; ok {
				yield(path)
			}
			return
		}
		for p := range t.nodes {
			if within(p, path) && !yield(p) {
				return
			}
		}
	}
}

// hidden tells whether a directory above a path is ignored, or is none.
func (t *tree) hidden(path string) bool {
	for dir := range ancestors(path) {
		if !t.dirs[dir] {
			return true
		}
	}
	return false
}

// ignored tells whether a path of the sandbox does not count here.
func (t *tree) ignored(path string) bool {
	return t.own != "" && within(path, t.own) || t.keeps(path) || t.rules.ignored(path, false)
}

// unknown reports whether it is not known what lies at a path.
func (t *tree) unknown(path string) bool {
	if _, ok := t.refused[path]; ok {
		return true
	}
	for dir := range ancestors(path) {
		if t.unread[dir] {
			return true
		}
	}
	return false
}

// cannotRead notes what cannot be read at a path. It stops nothing else, and what cannot be read has
// not been deleted.
func (t *tree) cannotRead(path, what string, err error, before map[string]node) {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err // without the path, which is told beside it
	}
	t.refused[path], t.unread[path] = fmt.Sprintf("%s cannot be read: %v", what, err), true
	for p, n := range before {
		if within(p, path) {
			t.nodes[p] = n
		}
	}
}

// isGone reports whether an error says that nothing is there any more.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// directory reads a directory. What vanishes meanwhile is left out, and what cannot be read below the
// root is refused.
func (t *tree) directory(ctx context.Context, dir string, before map[string]node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.watch != nil {
		t.watch(dir)
	}
	names, err := os.ReadDir(filepath.Join(t.root, dir))
	what := "the directory"
	if err == nil {
		// Without its rules nothing of a directory is sent: it could be what they keep back.
		what, err = "a file with what to ignore there", t.rules.read(t.root, dir)
	}
	switch {
	case err == nil:
	case dir == "":
		return err
	case isGone(err):
		return nil
	default:
		t.cannotRead(dir, what, err, before)
		return nil
	}
	t.dirs[dir] = true
	for _, name := range names {
		if err := t.visit(ctx, strings.TrimPrefix(dir+"/"+name.Name(), "/"), before); err != nil {
			return err
		}
	}
	return nil
}

// visit takes in what lies at a path, whose parent is not ignored.
func (t *tree) visit(ctx context.Context, path string, before map[string]node) error {
	full := filepath.Join(t.root, path)
	info, err := os.Lstat(full)
	if isGone(err) {
		return nil
	}
	if err != nil {
		t.cannotRead(path, "the file", err, before)
		return nil
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if isRepository(name) || strings.HasPrefix(name, incoming) || path == t.own || t.rules.skips(path, info.IsDir()) {
		return nil
	}
	if reason := CheckName(path); reason != "" {
		t.refused[path] = reason
		return nil
	}
	if t.withhold(path, info.IsDir(), false) {
		return nil
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return t.directory(ctx, path, before)
	case mode.IsRegular():
		t.file(path, info, before)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(full)
		if err != nil {
			return nil //nolint:nilerr // it vanished
		}
		target = filepath.ToSlash(target)
		if reason := CheckTarget(path, target); reason != "" {
			t.refused[path] = reason
			return nil
		}
		t.nodes[path] = node{Entry: syncwire.Entry{Type: syncwire.Symlink, Target: target}, ID: identityOf(info)}
	default:
		t.refused[path] = "it is neither a file nor a directory nor a symlink"
	}
	return nil
}

// file takes in a file, and reads it if it may have changed.
func (t *tree) file(path string, info os.FileInfo, before map[string]node) {
	id := identityOf(info)
	n, ok := before[path]
	if !ok {
		n, ok = t.cache[path]
	}
	if !ok || n.Entry.Type != syncwire.File || n.ID != id || !id.settled(n.Read) {
		var err error
		n, err = t.hash(path)
		switch {
		case isGone(err), errors.Is(err, errNotRegular):
			return
		case err != nil:
			t.cannotRead(path, "the file", err, before)
			return
		}
	}
	if !t.withhold(path, false, n.Key) {
		t.nodes[path] = n
	}
}

// hash reads a file.
func (t *tree) hash(path string) (node, error) {
	f, err := openRegular(filepath.Join(t.root, path))
	if err != nil {
		return node{}, err
	}
	defer f.Close()
	t.hashed++
	n := node{Read: time.Now()}
	info, err := f.Stat()
	if err != nil {
		return node{}, err
	}
	n.ID = identityOf(info)
	sum := sha256.New()
	if t.buffer == nil {
		t.buffer = make([]byte, 64<<10)
	}
	// Without the struct a file would copy itself, by a buffer of its own for each of thousands.
	size, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, t.buffer)
	if err != nil {
		return node{}, err
	}
	head := make([]byte, min(size, keyHead))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return node{}, err
	}
	n.Key = isPrivateKey(head)
	n.Entry = syncwire.Entry{
		Type: syncwire.File, Size: size, Digest: hex.EncodeToString(sum.Sum(nil)), Executable: t.executable(path, info, head),
	}
	return n, nil
}

// executable reports whether a file that begins with head is a program. Where the file system does not say, it stays
// what both sides agreed on: else a sync would take the bit from every program of the sandbox.
func (t *tree) executable(path string, info os.FileInfo, head []byte) bool {
	if t.bits {
		return info.Mode()&0o100 != 0
	}
	if t.known != nil {
		if executable, ok := t.known(path); ok {
			return executable
		}
	}
	return bytes.HasPrefix(head, []byte("#!"))
}

// entry is what lies at a path.
func (t *tree) entry(path string) syncwire.Entry {
	if n, ok := t.nodes[path]; ok {
		return n.Entry
	}
	return syncwire.Entry{Type: syncwire.None}
}
