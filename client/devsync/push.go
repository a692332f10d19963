// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Bounds of one batch. A burst that is larger goes in several, each all or nothing. A batch has to
// fit into one request, of which a data plane takes 64 MiB unless its operator says otherwise.
const (
	maxBatchFiles = 4000
	maxBatchBytes = 48 << 20
)

// wholeBytes is the size up to which a file is read into memory and sent whole; above, what the
// sandbox has of it already is not sent.
const wholeBytes = 1 << 20

// errMoved means that a file changed while it was being sent. What was sent is not applied.
var errMoved = errors.New("a file changed while it was being sent")

// push makes the workspace as the directory is.
func (e *Engine) push(ctx context.Context, changes []change) error {
	for len(changes) > 0 {
		n, size := 0, int64(0)
		for n < len(changes) && n < maxBatchFiles && (n == 0 || size+changes[n].want.Size <= maxBatchBytes) {
			size += changes[n].want.Size
			n++
		}
		restart := e.opts.Restart
		if n < len(changes) {
			restart = syncwire.RestartLater
		}
		if err := e.pushBatch(ctx, changes[:n], restart); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// pushBatch sends one batch. One that is refused is sent in halves, until the change that is the
// reason stands alone: it alone is refused.
func (e *Engine) pushBatch(ctx context.Context, changes []change, restart string) error {
	if err := e.sameRoot(); err != nil {
		return err
	}
	for _, c := range changes {
		if c.expect.Type != syncwire.Dir {
			e.tell(c, Sending, "")
			e.base.intend(c.path, c.want)
		}
	}
	if err := e.base.flush(); err != nil {
		return fmt.Errorf("noting what is sent: %w", err)
	}
	b := batch{engine: e, ctx: ctx, changes: changes}
	applied, err := b.apply(restart)
	var remote *RemoteError
	switch {
	case err == nil:
		e.pushed(&b, applied)
		e.owed = restart == syncwire.RestartLater
		return e.base.flush()
	case errors.Is(err, errMoved):
		for _, path := range b.moved {
			e.dirty[path] = true
		}
		e.again = true
		return nil
	case !errors.As(err, &remote):
		return err
	case remote.Kind == Stale:
		e.stale(remote, changes)
		return nil
	case remote.Kind != Refused:
		return err
	case len(changes) == 1:
		e.refuse(changes[0], remote.Message)
		return nil
	}
	half := len(changes) / 2
	if err := e.pushBatch(ctx, changes[:half], syncwire.RestartLater); err != nil {
		return err
	}
	return e.pushBatch(ctx, changes[half:], restart)
}

// finish has happen what the batches that said later left, when the last one was not applied: it
// was refused, or what it had is gone.
func (e *Engine) finish(ctx context.Context) error {
	if !e.owed {
		return nil
	}
	applied, err := e.opts.Remote.Apply(ctx, e.opts.Restart, (*syncwire.Encoder).End)
	if err != nil {
		return err
	}
	e.owed = false
	e.tellRestart(applied)
	return nil
}

func (e *Engine) tellRestart(applied *Applied) {
	if applied.RestartError != "" {
		e.note("the files are synced, and the process could not be restarted: " + applied.RestartError)
	}
}

// pushed notes a batch that was applied.
func (e *Engine) pushed(b *batch, applied *Applied) {
	for _, c := range b.changes {
		if c.expect.Type == syncwire.Dir {
			e.directoryGone(c.path)
			continue
		}
		e.remote.set(c.path, c.want)
		e.base.set(c.path, c.want)
		delete(e.stuck, c.path)
		e.tell(c, FileApplied, "")
		e.sent++
	}
	e.remote.tag, e.revision = "", applied.Revision
	e.bytes += b.bytes
	e.whole = false
	for _, path := range b.newer {
		e.dirty[path], e.again = true, true
	}
	e.tellRestart(applied)
}

// directoryGone notes that the workspace has no directory there any more, and nothing below.
func (e *Engine) directoryGone(dir string) {
	for d := range e.remote.dirs {
		if within(d, dir) {
			delete(e.remote.dirs, d)
		}
	}
	for path := range e.remote.entries {
		if within(path, dir) && path != dir {
			e.remote.set(path, syncwire.Entry{Type: syncwire.None})
			e.base.set(path, syncwire.Entry{Type: syncwire.None})
			e.todo[path] = true
		}
	}
}

// stale has the workspace listed again. A path that keeps being in the way although the listing
// does not show why (a directory with ignored files in it, for example) is listed as a conflict.
func (e *Engine) stale(err *RemoteError, changes []change) {
	e.relist, e.again = true, true
	if len(err.Conflicts) == 0 {
		// Content that was taken for known is not there, or was not read twice alike.
		e.whole = true
		for _, c := range changes {
			e.dirty[c.path] = true
		}
		return
	}
	for _, c := range err.Conflicts {
		s := e.stuck[c.Path]
		e.stuck[c.Path] = stuck{times: s.times + 1, reason: c.Reason, local: e.local.entry(c.Path)}
	}
}

// batch writes changes as frames.
type batch struct {
	engine  *Engine
	ctx     context.Context //nolint:containedctx // of the one call of Apply
	changes []change
	bytes   int64
	// known has the content that the workspace is about to lose, by digest: what is renamed is
	// not sent.
	known map[string]string
	// moved are the files for which the batch was given up, newer those that were sent as they
	// were saved since they had been looked at.
	moved, newer []string
	// cut is how the large file that was read last is made up; staged says that the workspace has all
	// of the one file of the batch.
	cut    *cutFile
	staged bool
}

func (b *batch) write(out *syncwire.Encoder) error {
	b.known = map[string]string{}
	if !b.engine.whole {
		for _, c := range b.changes {
			if c.expect.Type == syncwire.File && c.expect.Digest != "" && c.expect.Size > 0 {
				b.known[c.expect.Digest] = c.path
			}
		}
	}
	for i := range b.changes {
		if err := b.change(out, &b.changes[i]); err != nil {
			return err
		}
	}
	return out.End()
}

func (b *batch) change(out *syncwire.Encoder, c *change) error {
	expect := c.expect
	expect.Path, expect.ModTime = "", nil
	frame := syncwire.Frame{Path: c.path, Expect: &expect}
	switch c.want.Type {
	case syncwire.Symlink:
		frame.Op, frame.Target = syncwire.OpSymlink, c.want.Target
		return out.Entry(frame)
	case syncwire.File:
		frame.Op = syncwire.OpFile
		return b.orMoved(c, b.file(out, frame, c))
	default:
		frame.Op, frame.Recursive = syncwire.OpDelete, c.tree
		return out.Entry(frame)
	}
}

// orMoved notes a file that is not there as it was looked at.
func (b *batch) orMoved(c *change, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errNotRegular) || errors.Is(err, errMoved) {
		b.moved = append(b.moved, c.path)
		return errMoved
	}
	return err
}

// file sends a file. Its digest is that of the very bytes that are sent.
func (b *batch) file(out *syncwire.Encoder, frame syncwire.Frame, c *change) error {
	if source, ok := b.known[c.want.Digest]; ok {
		frame.Size, frame.Digest, frame.Executable = c.want.Size, c.want.Digest, &c.want.Executable
		if err := out.Entry(frame); err != nil {
			return err
		}
		return out.Copy(source, 0, c.want.Size)
	}
	if b.staged {
		frame.Size, frame.Digest, frame.Executable, frame.Staged = c.want.Size, c.want.Digest, &c.want.Executable, true
		return out.Entry(frame)
	}
	f, err := openRegular(filepath.Join(b.engine.opts.Dir, c.path))
	if err != nil {
		return err
	}
	defer f.Close()
	if c.want.Size > wholeBytes {
		return b.large(out, frame, c, f)
	}
	content, err := io.ReadAll(io.LimitReader(f, wholeBytes+1)) //nolint:forbidigo // wholeBytes
	if err != nil {
		return err
	}
	if len(content) > wholeBytes {
		return errMoved
	}
	if isPrivateKey(content[:min(len(content), keyHead)]) && !b.engine.local.allowed.has(c.path, false) {
		return errMoved // it was none when it was looked at
	}
	sum := sha256.Sum256(content)
	if digest := hex.EncodeToString(sum[:]); digest != c.want.Digest {
		b.isNewer(c, digest, int64(len(content)))
	}
	frame.Size, frame.Digest, frame.Executable = c.want.Size, c.want.Digest, &c.want.Executable
	if err := out.Entry(frame); err != nil {
		return err
	}
	b.bytes += frame.Size
	return out.Data(content)
}

// isNewer notes that a file was saved again since it was looked at. The newer content is as good.
func (b *batch) isNewer(c *change, digest string, size int64) {
	c.want.Digest, c.want.Size = digest, size
	b.engine.base.intend(c.path, c.want)
	b.newer = append(b.newer, c.path)
}
