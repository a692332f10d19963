// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
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
func upload(ctx context.Context, remote devsync.Remote, source, destination string, notes io.Writer) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	if destination == "" || destination[len(destination)-1] == '/' {
		absolute, err := filepath.Abs(source) // "." has a name too
		if err != nil {
			return fmt.Errorf("reading the source: %w", err)
		}
		destination = path.Join(destination, filepath.Base(absolute))
	}
	if source, err = filepath.EvalSymlinks(source); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	u := treeUp{remote: remote, source: source, destination: path.Clean(destination), notes: notes}
	if info.IsDir() {
		err = u.walk(ctx)
	} else {
		err = u.add(ctx, "", info)
	}
	if err == nil {
		err = u.send(ctx, "never")
	}
	if err != nil {
		return fmt.Errorf("copying to %s: %w", destination, err)
	}
	if u.left > 0 {
		return fmt.Errorf("%w: %d entries were left out", errLeftOut, u.left)
	}
	return nil
}

// treeUp copies a tree into a sandbox, batch by batch.
type treeUp struct {
	remote              devsync.Remote
	source, destination string
	notes               io.Writer
	left                int

	batch []upEntry
	bytes int64
}

// upEntry is one entry of a batch; file is where its content lies here.
type upEntry struct {
	frame syncwire.Frame
	file  string
}

func (u *treeUp) walk(ctx context.Context) error {
	return filepath.WalkDir(u.source, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(u.source, full)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return u.add(ctx, filepath.ToSlash(name), info)
	})
}

// add puts one thing into the batch. The runner has the last word on names and targets; what it
// would refuse is left out here, since it would refuse the whole batch with it.
func (u *treeUp) add(ctx context.Context, name string, info fs.FileInfo) error {
	entry := upEntry{frame: syncwire.Frame{Path: path.Join(u.destination, name)}, file: filepath.Join(u.source, filepath.FromSlash(name))}
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
		if reason := devsync.CheckTarget(entry.frame.Path, target); reason != "" {
			return u.leaveOut(entry.file, reason)
		}
		entry.frame.Op, entry.frame.Target = syncwire.OpSymlink, target
	case 0:
		executable := info.Mode()&0o100 != 0
		entry.frame.Op, entry.frame.Size, entry.frame.Executable = syncwire.OpFile, info.Size(), &executable
	default:
		return u.leaveOut(entry.file, "it is neither a file, a directory nor a symlink")
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

func (u *treeUp) leaveOut(name, reason string) error {
	u.left++
	_, err := fmt.Fprintf(u.notes, "left out %s: %s\n", termsafe.String(name), termsafe.String(reason))
	return err
}

// send sends the batch, which is applied whole or not at all.
func (u *treeUp) send(ctx context.Context, restart string) error {
	if len(u.batch) == 0 {
		return nil
	}
	_, err := u.remote.Apply(ctx, restart, func(out *syncwire.Encoder) error {
		for _, entry := range u.batch {
			if err := entry.write(out); err != nil {
				return err
			}
		}
		return out.End()
	})
	u.batch, u.bytes = nil, 0
	return err
}

func (e upEntry) write(out *syncwire.Encoder) error {
	if e.frame.Op != syncwire.OpFile {
		return out.Entry(e.frame)
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer f.Close()
	// Its size is of now, and so is its digest.
	sum := sha256.New()
	if e.frame.Size, err = io.Copy(sum, f); err != nil {
		return err
	}
	e.frame.Digest = hex.EncodeToString(sum.Sum(nil))
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
