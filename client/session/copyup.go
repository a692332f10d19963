// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

const (
	// copyPiece is how much of a file one frame carries.
	copyPiece = 256 << 10

	// A batch of a tree has at most so many entries and, unless it is one file, bytes: below
	// what the runner takes and what a data plane takes by default (64 MiB).
	copyBatchEntries = 4000
	copyBatchBytes   = 48 << 20
)

// upload copies a file, or a directory with all below it, to a path of the sandbox.
func upload(ctx context.Context, remote devsync.Remote, source, destination string, notes Notes) error {
	source, destination, info, err := whatToSend(source, destination)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	into, err := followed(ctx, remote, destination)
	if err != nil {
		return fmt.Errorf("copying to %s: %w", destination, err)
	}
	u := treeUp{remote: remote, source: source, destination: into, notes: notes}
	if info.IsDir() {
		err = u.walk(ctx)
	} else {
		err = u.add(ctx, "", info)
	}
	if err == nil {
		err = u.send(ctx, syncwire.RestartNever)
	}
	if err != nil {
		return fmt.Errorf("copying to %s: %w", destination, err)
	}
	return leftOut(u.left)
}

// whatToSend is the source behind its symlinks, and where it goes: a destination that is a directory gets
// the source's name below it.
func whatToSend(source, destination string) (from, to string, info os.FileInfo, err error) {
	if info, err = os.Stat(source); err != nil {
		return "", "", nil, err
	}
	if destination == "" || strings.HasSuffix(destination, "/") {
		absolute, err := filepath.Abs(source) // "." has a name too
		if err != nil {
			return "", "", nil, err
		}
		destination = path.Join(destination, filepath.Base(absolute))
	}
	from, err = filepath.EvalSymlinks(source)
	return from, destination, info, err
}

// treeUp copies a tree into a sandbox, batch by batch.
type treeUp struct {
	remote              devsync.Remote
	source, destination string
	notes               Notes
	left                int

	batch []upEntry
	bytes int64
}

// upEntry is one entry of a batch; file is where its content lies here.
type upEntry struct {
	frame syncwire.Frame
	file  string
}

// isFile reports whether it is a file that has more bytes than the least part of one.
func (e upEntry) isFile(more int64) bool { return e.frame.Op == syncwire.OpFile && e.frame.Size > more }

func (u *treeUp) walk(ctx context.Context) error {
	return filepath.WalkDir(u.source, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			if full == u.source {
				return err
			}
			u.leaveOut(full, reasonOf(err))
			return nil // and the walk goes on behind it
		}
		name, err := filepath.Rel(u.source, full)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			u.leaveOut(full, reasonOf(err))
			return nil
		}
		return u.add(ctx, filepath.ToSlash(name), info)
	})
}

// add puts one thing into the batch. The runner has the last word on names and targets; what it
// would refuse is left out here, since it would refuse the whole batch with it.
func (u *treeUp) add(ctx context.Context, name string, info fs.FileInfo) error {
	entry := upEntry{frame: syncwire.Frame{Path: path.Join(u.destination, name)}, file: filepath.Join(u.source, filepath.FromSlash(name))}
	if reason := devsync.CheckForm(entry.frame.Path); reason != "" && entry.frame.Path != "." {
		u.leaveOut(entry.file, reason)
		if !info.IsDir() {
			return nil
		}
		return fs.SkipDir
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if entry.frame.Path == "." {
			return nil // the workspace itself
		}
		entry.frame.Op = syncwire.OpDir
	case fs.ModeSymlink:
		target, err := os.Readlink(entry.file)
		if err != nil {
			return err
		}
		target = filepath.ToSlash(target)
		if reason := devsync.CheckTarget(entry.frame.Path, target); reason != "" {
			u.leaveOut(entry.file, reason)
			return nil
		}
		entry.frame.Op, entry.frame.Target = syncwire.OpSymlink, target
	case 0:
		f, err := os.Open(entry.file)
		if err != nil {
			u.leaveOut(entry.file, reasonOf(err))
			return nil
		}
		_ = f.Close()
		executable := info.Mode()&0o100 != 0
		entry.frame.Op, entry.frame.Size, entry.frame.Executable = syncwire.OpFile, info.Size(), &executable
	default:
		u.leaveOut(entry.file, "it is neither a file, a directory nor a symlink")
		return nil
	}
	if len(u.batch) >= copyBatchEntries || len(u.batch) > 0 && u.bytes+entry.frame.Size > copyBatchBytes {
		if err := u.send(ctx, syncwire.RestartLater); err != nil {
			return err
		}
	}
	u.batch = append(u.batch, entry)
	u.bytes += entry.frame.Size
	return nil
}

func (u *treeUp) leaveOut(name, reason string) {
	u.left++
	u.notes.send(LeftOut{Path: name, Reason: reason})
}

// reasonOf is why a path cannot be read, without the path, which is told beside it.
func reasonOf(err error) string {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return "it cannot be read: " + err.Error()
}

// send sends what was collected.
func (u *treeUp) send(ctx context.Context, restart string) error {
	batch := u.batch
	u.batch, u.bytes = nil, 0
	if len(batch) == 0 {
		return nil
	}
	if len(batch) == 1 && batch[0].isFile(copyBatchBytes) {
		if err := u.stage(ctx, &batch[0]); err != nil {
			return err
		}
	}
	return u.apply(ctx, restart, batch)
}

// apply sends a batch, which is applied whole or not at all. One that is more than the data plane takes
// in a request goes in halves, and a file that is by itself, in parts.
func (u *treeUp) apply(ctx context.Context, restart string, batch []upEntry) error {
	_, err := u.remote.Apply(ctx, restart, func(out *syncwire.Encoder) error {
		for _, entry := range batch {
			if err := entry.write(out); err != nil {
				return err
			}
		}
		return out.End()
	})
	var refused *devsync.RemoteError
	if !errors.As(err, &refused) || !refused.TooLarge {
		return err
	}
	if half := len(batch) / 2; half > 0 {
		if err := u.apply(ctx, syncwire.RestartLater, batch[:half]); err != nil {
			return err
		}
		return u.apply(ctx, restart, batch[half:])
	}
	if batch[0].frame.Staged || !batch[0].isFile(devsync.MinPartBytes) {
		return err
	}
	if err := u.stage(ctx, &batch[0]); err != nil {
		return err
	}
	return u.apply(ctx, restart, batch)
}

// stage sends the content of a file ahead, in parts.
func (u *treeUp) stage(ctx context.Context, e *upEntry) error {
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := e.describe(f); err != nil {
		return err
	}
	progress := newProgress(u.notes, e.frame.Path, e.frame.Size)
	defer progress.end()
	up := devsync.Upload{Remote: u.remote, Content: f, Size: e.frame.Size, Digest: e.frame.Digest}
	up.OnProgress = func(done int64) {
		progress.continued(up.Resumed, true)
		progress.at(done)
	}
	up.OnLost = func(err error, retry time.Duration) {
		u.notes.send(CopyInterrupted{Err: err, Retry: retry})
	}
	err = up.Run(ctx)
	var refused *devsync.RemoteError
	if errors.As(err, &refused) && refused.Kind == devsync.Stale {
		return devsync.ErrChanged
	}
	e.frame.Staged = err == nil
	return err
}

// describe finds the size and the digest of a file as it is now.
func (e *upEntry) describe(f io.Reader) (err error) {
	sum := sha256.New()
	if e.frame.Size, err = io.Copy(sum, f); err != nil {
		return err
	}
	e.frame.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

func (e upEntry) write(out *syncwire.Encoder) error {
	if e.frame.Op != syncwire.OpFile || e.frame.Staged {
		return out.Entry(e.frame)
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := e.describe(f); err != nil {
		return err
	}
	if err := out.Entry(e.frame); err != nil {
		return err
	}
	pieces := io.NewSectionReader(f, 0, e.frame.Size)
	for buffer := make([]byte, copyPiece); ; {
		n, err := pieces.Read(buffer)
		if err := out.Data(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
