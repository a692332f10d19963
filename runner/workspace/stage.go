// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// StagedFile is a file of a batch that is being filled. It joins the batch with
// [StagedFile.Close], whole and with the right digest, or not at all.
type StagedFile struct {
	filler
	batch *Batch
	frame syncwire.Frame
	file  *os.File
	hash  hash.Hash
	left  int64
}

// filler takes content, new or of files of the workspace, and hands it to write.
type filler struct {
	workspace *Workspace
	path      string // of the file, in messages
	buf       []byte
	write     func([]byte) error
}

// File begins a file. Path, Size, Digest, Executable and Expect of the frame
// count. The caller ends it with [StagedFile.Abort], whatever came before.
func (b *Batch) File(f syncwire.Frame) (*StagedFile, error) {
	if err := b.admit(f.Path); err != nil {
		return nil, err
	}
	limits := b.workspace.limits
	if f.Size > limits.FileBytes {
		return nil, &Error{
			Code: CodeFileTooLarge, Path: f.Path,
			Message: fmt.Sprintf("the file has %d bytes; the limit is %d bytes a file", f.Size, limits.FileBytes),
		}
	}
	if b.staged += f.Size; b.staged > limits.BatchBytes {
		return nil, &Error{
			Code: CodeBatchTooLarge, Path: f.Path,
			Message: fmt.Sprintf("the files of the batch exceed the limit of %d bytes; send it in several batches", limits.BatchBytes),
		}
	}
	file, err := b.stage.create(newName(len(b.entries)))
	if err != nil {
		return nil, failed(f.Path, "staging the file", err)
	}
	s := &StagedFile{batch: b, frame: f, file: file, hash: sha256.New(), left: f.Size}
	s.filler = filler{workspace: b.workspace, path: f.Path, buf: make([]byte, min(hashChunk, max(f.Size, 1))), write: s.write}
	return s, nil
}

// Fill adds n bytes from r. Errors of r come back as they are.
func (s *filler) Fill(r io.Reader, n int64) error {
	for n > 0 {
		read, err := r.Read(s.buf[:min(n, int64(len(s.buf)))])
		n -= int64(read)
		if err := s.write(s.buf[:read]); err != nil {
			return err
		}
		if n > 0 && err != nil {
			return or(err, io.EOF, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

// Copy adds a range of a file of the workspace, as it is now. One that has
// changed since the caller learned of it is noticed by Close.
func (s *filler) Copy(path string, offset, length int64) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	from, err := s.workspace.OpenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.changed(path)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	err = s.Fill(io.NewSectionReader(from, offset, length), length)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return s.changed(path)
	}
	return err
}

func (s *StagedFile) write(p []byte) error {
	s.left -= int64(len(p))
	s.hash.Write(p)
	if _, err := s.file.Write(p); err != nil {
		return failed(s.frame.Path, "staging the file", err)
	}
	return nil
}

// changed says that content that the client took for known is not there.
func (s *filler) changed(source string) error {
	return &Error{
		Code: CodeSourceChanged, Path: s.path,
		Message: fmt.Sprintf("the content is not the promised one: %q has changed; ask for the listing again", source),
	}
}

// Close adds the file to the batch.
func (s *StagedFile) Close() error {
	if s.left != 0 || hex.EncodeToString(s.hash.Sum(nil)) != s.frame.Digest {
		return s.changed(s.frame.Path)
	}
	s.batch.file(s.frame)
	return nil
}

// Abort releases the file. After Close it changes nothing of the batch.
func (s *StagedFile) Abort() { _ = s.file.Close() }

// or returns err, with one value replaced by another.
func or(err, is, become error) error {
	if errors.Is(err, is) {
		return become
	}
	return err
}

// OpenFile opens a regular file of the workspace for reading. A path that leads
// through a symlink, or to anything else, is a [CodeConflict]; nothing there is
// fs.ErrNotExist.
func (w *Workspace) OpenFile(path string) (*os.File, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	parents, name := split(path)
	d, err := w.walk(parents)
	if err != nil {
		return nil, notFile(path, err)
	}
	defer d.close()
	f, err := d.openRead(name)
	if err != nil {
		return nil, notFile(path, err)
	}
	return f, nil
}

func notFile(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, fs.ErrInvalid):
		return &Error{Code: CodeConflict, Path: path, Message: "it is no regular file"}
	default:
		return failed(path, "opening the file", err)
	}
}

// Describe returns what lies at a path.
func (w *Workspace) Describe(path string) (syncwire.Entry, error) {
	if err := CheckPath(path); err != nil {
		return syncwire.Entry{}, err
	}
	parents, name := split(path)
	d, err := w.walk(parents)
	if err != nil {
		return syncwire.Entry{}, notFile(path, err)
	}
	defer d.close()
	e, _, err := w.look(d, name)
	if err != nil {
		return syncwire.Entry{}, failed(path, "looking", err)
	}
	e.Path = path
	return e, nil
}

// VersionOf names the content of a file by what the kernel says of it. It never is a digest.
func VersionOf(f *os.File) string {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return "unknown-" + rand.Text()
	}
	return fmt.Sprintf("version-%x-%x-%x", st.Ino, st.Size, st.Ctim.Nano())
}

// depth counts the names of a path.
func depth(path string) int { return strings.Count(path, "/") + 1 }
