// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Listing is the tree as it was at one moment between two batches. It lies in a
// file without a name, so that a tree of any size costs no memory, and a slow
// reader keeps no batch waiting.
type Listing struct {
	Head syncwire.ListingHead
	file *os.File
}

// Close releases the listing.
func (l *Listing) Close() { _ = l.file.Close() }

// Lines returns the entries as lines of JSON, ordered by path, names byte by byte
// in each directory.
func (l *Listing) Lines() io.Reader {
	return io.NewSectionReader(l.file, 0, 1<<62)
}

// List looks at the whole tree, except what has one of the names in exclude, at
// any depth, and reads every file that has changed since it was last looked at.
func (w *Workspace) List(exclude []string) (*Listing, error) {
	staging, err := w.staging()
	if err != nil {
		return nil, failed("", "opening the staging directory", err)
	}
	defer staging.close()
	file, err := staging.scratch()
	if err != nil {
		return nil, failed("", "making the listing", err)
	}
	l := &Listing{file: file}
	if err := w.list(l, exclude); err != nil {
		l.Close()
		return nil, failed("", "listing the workspace", err)
	}
	return l, nil
}

func (w *Workspace) list(l *Listing, exclude []string) error {
	w.committing.Lock()
	defer w.committing.Unlock()
	l.Head.Revision = w.Revision()
	lines := lineWriter{out: l.file, hash: sha256.New()}
	skipped, err := w.scan(exclude, func(d directory, name, path string, _ *unix.Stat_t) error {
		e, st, err := w.look(d, name)
		if err != nil || e.Type == syncwire.None {
			return ignore(err, fs.ErrNotExist)
		}
		e.Path = path
		if e.Type == syncwire.File {
			modified := time.Unix(st.Mtim.Unix()).UTC()
			e.ModTime = &modified
		}
		l.Head.Entries++
		return lines.add(&e)
	})
	if err != nil {
		return err
	}
	l.Head.Skipped = skipped
	l.Head.Digest = hex.EncodeToString(lines.hash.Sum(nil))
	return lines.flush()
}

// Empty tells whether nothing lies in the workspace. It reads two names at most.
func (w *Workspace) Empty() (bool, error) {
	top, err := w.top.openDir(".")
	if err != nil {
		return false, failed("", "looking into the workspace", err)
	}
	defer top.close()
	names, err := top.file.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, failed("", "looking into the workspace", err)
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name != StagingName }), nil
}

// lineWriter writes entries and hashes what of them is compared.
type lineWriter struct {
	out  io.Writer
	hash hash.Hash
	buf  []byte
}

func (l *lineWriter) add(e *syncwire.Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.buf = append(append(l.buf, line...), '\n')
	compared := *e
	compared.ModTime = nil
	if line, err = json.Marshal(compared); err != nil {
		return err
	}
	l.hash.Write(append(line, '\n'))
	if len(l.buf) >= hashChunk {
		return l.flush()
	}
	return nil
}

func (l *lineWriter) flush() error {
	_, err := l.out.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// visit is called for each thing in the tree, a directory before what is in it.
type visit func(d directory, name, path string, st *unix.Stat_t) error

// scan visits the tree. It returns how many things it could not name. What
// vanishes under it is left out: the app may be at work.
func (w *Workspace) scan(exclude []string, do visit) (skipped int, err error) {
	top, err := w.top.openDir(".")
	if err != nil {
		return 0, err
	}
	defer top.close()
	s := scanner{exclude: exclude, do: do}
	err = s.directory(top, "", 1)
	return s.skipped, err
}

type scanner struct {
	exclude []string
	do      visit
	skipped int
}

// directory visits what is in d. It calls itself once per level, and each level
// holds a directory open; MaxPathDepth bounds both.
func (s *scanner) directory(d directory, prefix string, level int) error {
	names, err := d.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := prefix + name
		if prefix == "" && name == StagingName || slices.Contains(s.exclude, name) {
			continue
		}
		if level > MaxPathDepth || CheckPath(path) != nil {
			s.skipped++
			continue
		}
		st, err := d.lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.do(d, name, path, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		sub, err := d.openDir(name)
		if err != nil {
			if !vanished(err) {
				s.skipped++ // it may not be read
			}
			continue
		}
		err = s.directory(sub, path+"/", level+1)
		sub.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// vanished is true for what is no directory any more.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
