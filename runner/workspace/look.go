// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const (
	// maxDigests bounds the digests that are remembered; each costs about 150 bytes.
	maxDigests = 64 << 10

	// racyTime is how long after its last change a file is hashed anew each time. A
	// second write within one tick of the file system's clock leaves all times as
	// they were; two seconds is the coarsest clock there is.
	racyTime = 2 * time.Second

	// hashChunk is how much of a file is read at once.
	hashChunk = 64 << 10
)

// digests remembers the content of files by what the inode says of them. The
// change time is part of it: no program can set it back, as it can the
// modification time.
type digests struct {
	mu    sync.Mutex
	known map[inode]known
}

type inode struct{ dev, ino uint64 }

type known struct {
	size         int64
	mtime, ctime unix.Timespec
	racy         bool
	sum          [sha256.Size]byte
}

// of returns the digest of an open regular file.
func (c *digests) of(f *os.File, st *unix.Stat_t) (string, error) {
	id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev is narrower on some architectures
	c.mu.Lock()
	k, ok := c.known[id]
	c.mu.Unlock()
	if ok && !k.racy && k.size == st.Size && k.mtime == st.Mtim && k.ctime == st.Ctim {
		return hex.EncodeToString(k.sum[:]), nil
	}
	began := time.Now()
	hash := sha256.New()
	// Not more than it had: an app that appends faster than this reads would never
	// let it end.
	if _, err := io.CopyBuffer(hash, io.LimitReader(onlyReader{f}, st.Size), make([]byte, hashChunk)); err != nil {
		return "", err
	}
	var after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &after); err != nil {
		return "", err
	}
	k = known{size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
	hash.Sum(k.sum[:0])
	if after.Size == st.Size && after.Mtim == st.Mtim && after.Ctim == st.Ctim {
		k.racy = began.Sub(time.Unix(st.Ctim.Unix())) < racyTime
		c.remember(id, k)
	}
	return hex.EncodeToString(k.sum[:]), nil
}

// onlyReader hides that a file can write itself somewhere, with buffers of its own.
type onlyReader struct{ io.Reader }

func (c *digests) remember(id inode, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.known[id]; !there && len(c.known) >= maxDigests {
		// Any eighth: a scan of more files than are remembered has no use for the
		// oldest or the newest.
		drop := maxDigests / 8
		for old := range c.known {
			delete(c.known, old)
			if drop--; drop == 0 {
				break
			}
		}
	}
	c.known[id] = k
}

// look says what is called name, and what the kernel says of it.
func (w *Workspace) look(d directory, name string) (syncwire.Entry, unix.Stat_t, error) {
	st, err := d.lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return syncwire.Entry{Type: syncwire.None}, st, nil
	}
	if err != nil {
		return syncwire.Entry{}, st, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return syncwire.Entry{Type: syncwire.Dir}, st, nil
	case unix.S_IFLNK:
		// A target that is too long is none that a client could have written.
		target, err := d.readLink(name)
		if err != nil && !errors.Is(err, unix.ENAMETOOLONG) {
			return syncwire.Entry{}, st, err
		}
		return syncwire.Entry{Type: syncwire.Symlink, Target: target}, st, nil
	case unix.S_IFREG:
		return w.lookFile(d, name, st)
	default:
		return syncwire.Entry{Type: syncwire.Other}, st, nil
	}
}

// lookFile leaves the digest empty for what cannot be read, or is too large.
func (w *Workspace) lookFile(d directory, name string, st unix.Stat_t) (syncwire.Entry, unix.Stat_t, error) {
	e := syncwire.Entry{Type: syncwire.File, Size: st.Size, Executable: st.Mode&0o111 != 0}
	if st.Size > w.hashed {
		e.Digest = w.large.digest(&st)
		return e, st, nil
	}
	f, err := d.openRead(name)
	if err != nil {
		return e, st, nil // unreadable, or no regular file any more
	}
	defer f.Close()
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return e, st, err
	}
	e.Size, e.Executable = st.Size, st.Mode&0o111 != 0
	if st.Size > w.hashed {
		return e, st, nil
	}
	e.Digest, err = w.digests.of(f, &st)
	return e, st, err
}
