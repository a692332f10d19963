// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const (
	// UploadsName is a directory in the staging directory with content that arrives over several
	// requests. A file there is named by the digest of the whole.
	UploadsName = "uploads"
	// MaxUploads bounds the contents that wait there. One more takes the place of the one to which
	// nothing has been added for the longest time.
	MaxUploads = 16
	// UploadAge is how long a content waits after the last part of it came.
	UploadAge = 24 * time.Hour
)

// uploads are the contents that wait for their batch. All of it is used with mu held, also writes:
// few clients send large files to one sandbox at a time.
//
// The app can write to the directory, as it can to the whole workspace. What it does there deceives
// nobody but itself: the digest is of the bytes as they were taken in, and a file whose inode has
// changed since is read again.
type uploads struct {
	workspace *Workspace
	mu        sync.Mutex
	known     map[string]*upload
	timer     *time.Timer
	closed    bool
}

// upload is what is known of a content.
type upload struct {
	// offset is how much of it is there, size how much the newest part says that it has.
	offset, size int64
	hash         hash.Hash
	seen         unix.Stat_t
	// part is the request that adds to it. The newest takes over: the one before is of a connection
	// that broke, more often than not.
	part *Part
	// taken is set while a batch is going to apply it.
	taken bool
}

// private opens a directory of the runner in the staging directory, and makes it if it is missing.
func (w *Workspace) private(name string) (directory, error) {
	staging, err := w.staging()
	if err != nil {
		return directory{}, err
	}
	defer staging.close()
	d, _, err := staging.openOrMakeDir(name, stagingMode)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err = staging.removeFile(name); err == nil {
			d, _, err = staging.openOrMakeDir(name, stagingMode)
		}
	}
	return d, err
}

// Staged reports how much of the content with a digest waits.
func (w *Workspace) Staged(digest string) (syncwire.Staged, error) {
	s := syncwire.Staged{Digest: digest}
	u := &w.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	d, err := w.private(UploadsName)
	if err != nil {
		return s, failed("", "opening the staged content", err)
	}
	defer d.close()
	known, f, err := u.open(d, digest)
	if err != nil || known == nil {
		return s, err
	}
	s.Offset = known.offset
	return s, f.Close()
}

// open opens what waits of a content; nil if there is nothing. What an earlier runner left, or
// somebody else wrote to, is read again.
func (u *uploads) open(d directory, digest string) (*upload, *os.File, error) {
	f, err := d.openWrite(digest)
	if errors.Is(err, fs.ErrNotExist) {
		delete(u.known, digest)
		return nil, nil, nil
	}
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		return nil, nil, u.drop(d, digest)
	}
	if err != nil {
		return nil, nil, failed("", "opening the staged content", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		_ = f.Close()
		return nil, nil, failed("", "opening the staged content", err)
	}
	known := u.known[digest]
	if known != nil && (known.taken || known.part != nil || sameFile(&known.seen, &st)) {
		return known, f, nil
	}
	// A second name would let a file of the workspace change with what waits here, or the reverse.
	if st.Nlink != 1 || st.Size > u.workspace.limits.FileBytes {
		_ = f.Close()
		return nil, nil, u.drop(d, digest)
	}
	known = &upload{hash: sha256.New(), seen: st}
	if known.offset, err = io.Copy(known.hash, io.LimitReader(onlyReader{f}, st.Size)); err != nil {
		_ = f.Close()
		return nil, nil, failed("", "reading the staged content", err)
	}
	u.known[digest] = known
	return known, f, nil
}

// sameFile reports whether nobody has written to a file.
func sameFile(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim
}

// drop removes a content.
func (u *uploads) drop(d directory, digest string) error {
	delete(u.known, digest)
	if err := d.removeTree(digest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("", "removing staged content", err)
	}
	return nil
}

// Part is a part of a content that is being added.
type Part struct {
	filler
	uploads *uploads
	dir     directory
	digest  string
	upload  *upload
	file    *os.File
}

// Stage begins a part. Digest, Size, Offset and Length of the frame count. The caller ends it with
// [Part.Close]; what came until then stays, and is not sent again.
func (w *Workspace) Stage(f syncwire.Frame) (*Part, error) {
	if limit := w.limits.FileBytes; f.Size > limit {
		return nil, &Error{Code: CodeFileTooLarge, Message: fmt.Sprintf("the file has %d bytes; the limit is %d bytes a file", f.Size, limit)}
	}
	u := &w.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	d, err := w.private(UploadsName)
	if err != nil {
		return nil, failed("", "opening the staged content", err)
	}
	p, err := u.begin(d, f)
	if err != nil {
		d.close()
		return nil, err
	}
	return p, nil
}

func (u *uploads) begin(d directory, f syncwire.Frame) (*Part, error) {
	u.sweep(d, f.Digest)
	known, file, err := u.open(d, f.Digest)
	if err != nil {
		return nil, err
	}
	offset := int64(0)
	if known != nil {
		offset = known.offset
		defer func() { _ = file.Close() }() // the part opens its own
	}
	switch {
	case offset != f.Offset:
		return nil, &Error{
			Code:    CodeOffsetMismatch,
			Message: fmt.Sprintf("%d bytes of the content are here, and the part begins at %d; ask how many there are", offset, f.Offset),
		}
	case known != nil && known.taken:
		return nil, &Error{Code: CodeOffsetMismatch, Message: "a batch is applying the content"}
	}
	if err := u.admit(d, f.Size-offset); err != nil {
		return nil, err
	}
	if known == nil {
		created, err := d.create(f.Digest)
		if err != nil {
			return nil, failed("", "staging the content", err)
		}
		_ = created.Close()
		known = &upload{hash: sha256.New()}
		u.known[f.Digest] = known
	}
	known.size = f.Size
	out, err := d.openWrite(f.Digest)
	if err != nil {
		return nil, failed("", "staging the content", err)
	}
	p := &Part{uploads: u, dir: d, digest: f.Digest, upload: known, file: out}
	p.filler = filler{workspace: u.workspace, buf: make([]byte, min(hashChunk, f.Length)), write: p.write}
	known.part = p
	return p, nil
}

// admit refuses what the volume or the workspace has no room for before any of it is sent.
func (u *uploads) admit(d directory, more int64) error {
	if free, err := d.free(); err == nil && free < more {
		return &Error{
			Code:    CodeNoSpace,
			Message: fmt.Sprintf("no space is left in the workspace: the volume has %d bytes free, and the file needs %d more", free, more),
		}
	}
	waiting := int64(0)
	for _, known := range u.known {
		waiting += known.offset
	}
	w := u.workspace
	w.committing.Lock()
	defer w.committing.Unlock()
	return w.admit(usage{files: 1, bytes: waiting + more})
}

func (p *Part) write(b []byte) error {
	u := p.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	k := p.upload
	if k.part != p {
		return &Error{Code: CodeOffsetMismatch, Message: "another request goes on with the content, or it was dropped"}
	}
	if _, err := p.file.WriteAt(b, k.offset); err != nil {
		// On a volume that is full the app could not write either: nothing half done stays.
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || p.file.Truncate(k.offset) != nil {
			k.part = nil
			_ = u.drop(p.dir, p.digest)
		}
		return failed("", "staging the content", err)
	}
	k.hash.Write(b)
	k.offset += int64(len(b))
	return nil
}

// Close ends the part and reports how much of the content is there. Content that is whole and does
// not have its digest is dropped.
func (p *Part) Close() (syncwire.Staged, error) {
	u := p.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	defer p.dir.close()
	defer p.file.Close()
	k := p.upload
	s := syncwire.Staged{Digest: p.digest, Offset: k.offset}
	if k.part != p {
		return s, nil // somebody else's by now, or dropped
	}
	k.part = nil
	if k.offset == k.size && !k.whole(p.digest) {
		if err := u.drop(p.dir, p.digest); err != nil {
			return s, err
		}
		return s, &Error{Code: CodeSourceChanged, Message: "the content is not the promised one; send it again"}
	}
	u.later()
	if err := unix.Fstat(int(p.file.Fd()), &k.seen); err != nil {
		return s, failed("", "staging the content", err)
	}
	return s, nil
}

// whole reports whether all of a content is there.
func (k *upload) whole(digest string) bool {
	return hex.EncodeToString(k.hash.Sum(nil)) == digest
}

// take gives a whole content a second name in the stage of a batch. It stays until the batch is
// applied, so that one which is refused costs nothing to send again.
func (u *uploads) take(f syncwire.Frame, stage directory, name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	d, err := u.workspace.private(UploadsName)
	if err != nil {
		return failed(f.Path, "opening the staged content", err)
	}
	defer d.close()
	known, file, err := u.open(d, f.Digest)
	if err != nil {
		return err
	}
	if known == nil {
		return &Error{Code: CodeSourceChanged, Path: f.Path, Message: "nothing of the content is staged; send it"}
	}
	defer file.Close()
	switch {
	case known.taken || known.part != nil:
		return &Error{Code: CodeOffsetMismatch, Path: f.Path, Message: "another request works with the staged content"}
	case known.offset != f.Size || !known.whole(f.Digest):
		return &Error{
			Code: CodeSourceChanged, Path: f.Path,
			Message: fmt.Sprintf("%d of %d bytes of the content are staged; send the rest", known.offset, f.Size),
		}
	}
	if err := unix.Fchmod(int(file.Fd()), fileMode); err != nil {
		return failed(f.Path, "staging the file", err)
	}
	err = d.link(f.Digest, stage, name)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		err = d.rename(f.Digest, stage, name) // without hard links a batch that is refused takes it along
	}
	if err != nil {
		return failed(f.Path, "staging the file", err)
	}
	known.taken = true
	return nil
}

// release ends what take began. Content that was applied is gone from here.
func (u *uploads) release(digests []string, applied bool) {
	if len(digests) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	d, err := u.workspace.private(UploadsName)
	if err == nil {
		defer d.close()
	}
	for _, digest := range digests {
		if known := u.known[digest]; known != nil {
			known.taken = false
		}
		if applied && err == nil {
			_ = u.drop(d, digest) // a second name is noticed when it is opened next
		}
	}
}

// sweep drops what waits for too long, what no runner put there, and so many of the others that there
// is room for one more of the name keep.
func (u *uploads) sweep(d directory, keep string) {
	type waiting struct {
		digest string
		since  unix.Timespec
	}
	names, err := d.names()
	if err != nil {
		return
	}
	var rest []waiting
	oldest := time.Now().Add(-UploadAge)
	for _, name := range names {
		st, err := d.lstat(name)
		if known := u.known[name]; err != nil || known != nil && (known.taken || known.part != nil) {
			continue
		}
		if !syncwire.ValidDigest(name) || st.Mode&unix.S_IFMT != unix.S_IFREG || time.Unix(st.Mtim.Unix()).Before(oldest) {
			_ = u.drop(d, name)
			continue
		}
		if name != keep {
			rest = append(rest, waiting{name, st.Mtim})
		}
	}
	slices.SortFunc(rest, func(a, b waiting) int { return cmp.Compare(a.since.Nano(), b.since.Nano()) })
	for i := range len(rest) - (MaxUploads - 1) {
		_ = u.drop(d, rest[i].digest)
	}
}

// later has what waits swept once it is too old, also when nobody asks for anything until then.
func (u *uploads) later() {
	if u.timer != nil {
		u.timer.Stop()
	}
	if u.closed {
		return
	}
	u.timer = time.AfterFunc(UploadAge+time.Minute, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if d, err := u.workspace.private(UploadsName); err == nil && !u.closed {
			defer d.close()
			u.sweep(d, "")
		}
	})
}

// recover sweeps what an earlier runner left.
func (u *uploads) recover() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	staging, err := u.workspace.staging()
	if err != nil {
		return err
	}
	defer staging.close()
	if there, err := staging.exists(UploadsName); err != nil || !there {
		return err
	}
	d, err := u.workspace.private(UploadsName)
	if err != nil {
		return err
	}
	defer d.close()
	u.sweep(d, "")
	if names, err := d.names(); err == nil && len(names) > 0 {
		u.later()
	}
	return nil
}

func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
}
