// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

const (
	// smallBytes is the size up to which a file is read and written at once, and what a worker has for that.
	smallBytes = 128 << 10
	// rangeBytes is how much the kernel copies in one call: between two it is asked whether to go on.
	rangeBytes = 64 << 20
)

// pair is a file of the source and its copy, both open.
type pair struct {
	from, to int
	stat     unix.Stat_t // of the source
}

func (p *pair) close() {
	if p != nil {
		_ = unix.Close(p.from)
		_ = unix.Close(p.to)
	}
}

// open opens a file and makes its copy. It returns nil for one that cannot be read, which is counted, and for one that has
// gone.
func (c *copier) open(in *level, name string) (*pair, error) {
	from, err := in.source.read(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil //nolint:nilnil // documented: nothing is to be copied
	case denied(err):
		c.tally.unread(in.join(name))
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, fmt.Errorf("opening %q: %w", in.join(name), err)
	}
	p := &pair{from: from, to: -1}
	if err = unix.Fstat(from, &p.stat); err == nil && p.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it has become something else while it was copied")
	}
	if err == nil {
		p.to, err = in.into.folder.create(name, fileMode(p.stat.Mode))
	}
	if err != nil {
		_ = unix.Close(from)
		return nil, fmt.Errorf("copying %q: %w", in.join(name), err)
	}
	return p, nil
}

// fileMode is a mode without its set-ID bits. The pod's user, who could read the file, owns the copy.
func fileMode(mode uint32) uint32 { return mode&0o777 | unix.S_IRUSR }

// worker copies files.
type worker struct {
	copier *copier
	buf    []byte
	// byHand is set when the kernel does not copy between these file systems.
	byHand bool
}

// file copies content, mode and time.
func (w *worker) file(j job) (err error) {
	p := j.open
	if p == nil {
		if p, err = w.copier.open(j.in, j.name); p == nil {
			return err
		}
	}
	err = w.content(p)
	if err == nil {
		j.in.into.folder.step("chmod")
		err = unix.Fchmod(p.to, fileMode(p.stat.Mode)) // exact, also with a umask
	}
	if err == nil {
		sec, nsec := p.stat.Mtim.Unix()
		err = j.in.into.folder.touch(j.name, sec, nsec)
	}
	_ = unix.Close(p.from)
	// A network's file system can say only now that it is full.
	if err = errors.Join(err, unix.Close(p.to)); err != nil {
		return fmt.Errorf("copying %q: %w", j.in.join(j.name), err)
	}
	w.copier.tally.files.Add(1)
	return nil
}

// content copies a file's content, and leaves the holes of a large one.
func (w *worker) content(p *pair) error {
	w.copier.root.step("write")
	length := p.stat.Size
	if length <= smallBytes || p.stat.Blocks*diskBlock >= length {
		return w.part(p, 0, length)
	}
	for at := int64(0); at < length; {
		data, err := unix.Seek(p.from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // a hole to the end
		}
		var hole int64
		if err == nil {
			hole, err = unix.Seek(p.from, data, unix.SEEK_HOLE)
		}
		if errors.Is(err, unix.EINVAL) {
			data, hole, err = at, length, nil // a file system that does not know
		}
		if err == nil {
			at = min(hole, length)
			err = w.part(p, data, at)
		}
		if err != nil {
			return err
		}
	}
	return unix.Ftruncate(p.to, length)
}

// part copies the bytes from at to end.
func (w *worker) part(p *pair, at, end int64) error {
	for at < end {
		if w.copier.ctx.Err() != nil {
			return context.Cause(w.copier.ctx)
		}
		n, err := w.some(p, at, end-at)
		if errors.Is(err, io.EOF) {
			return nil // it has become shorter
		}
		if err != nil {
			return err
		}
		at += int64(n)
		w.copier.tally.bytes.Add(int64(n))
	}
	return nil
}

// some copies up to length bytes, by the kernel alone if the file is large and both file systems can: some share the blocks.
func (w *worker) some(p *pair, at, length int64) (int, error) {
	if length > smallBytes && !w.byHand {
		from, to := at, at
		n, err := unix.CopyFileRange(p.from, &from, p.to, &to, int(min(length, rangeBytes)), 0)
		switch {
		case err == nil && n > 0:
			return n, nil
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
			w.byHand = true
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
	n, err := unix.Pread(p.from, w.buf[:min(length, smallBytes)], at)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return unix.Pwrite(p.to, w.buf[:n], at)
}
