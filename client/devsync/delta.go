// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// maxChunkLists bounds for how many large files the chunks are remembered.
const maxChunkLists = 16

// chunkLists remembers how the content with a digest is made up, so that the next edit of a large
// file asks the sandbox nothing.
type chunkLists struct {
	lists map[string][]syncwire.Chunk
	order []string
}

func (l *chunkLists) put(digest string, chunks []syncwire.Chunk) {
	if l.lists == nil {
		l.lists = map[string][]syncwire.Chunk{}
	}
	if _, ok := l.lists[digest]; ok {
		return
	}
	if len(l.order) == maxChunkLists {
		delete(l.lists, l.order[0])
		l.order = l.order[1:]
	}
	l.lists[digest] = chunks
	l.order = append(l.order, digest)
}

// cutFile is how a file is made up, and what of it the workspace has in its version.
type cutFile struct {
	path   string
	size   int64
	digest string
	runs   []run
	// fresh is how much of it has to be sent.
	fresh int64
}

// prepare finds what of a large file has to be sent.
func (b *batch) prepare(c *change, f io.Reader) (*cutFile, error) {
	if b.cut != nil && b.cut.path == c.path { // it was staged
		return b.cut, nil
	}
	chunks, size, digest, err := cut(f)
	if err != nil {
		return nil, err
	}
	if digest != c.want.Digest {
		b.isNewer(c, digest, size)
	}
	have := b.have(c)
	b.engine.chunks.put(digest, chunks)
	b.cut = &cutFile{path: c.path, size: size, digest: digest}
	for _, chunk := range chunks {
		from, ok := have[chunk]
		if !ok {
			from = isNew
			b.cut.fresh += chunk.Length
		}
		b.cut.add(run{chunk.Length, from})
	}
	return b.cut, nil
}

// add adds a run. Those that follow one another on both sides become one.
func (c *cutFile) add(r run) {
	if n := len(c.runs); n > 0 {
		last := &c.runs[n-1]
		if last.from == isNew && r.from == isNew || last.from != isNew && r.from == last.from+last.length {
			last.length += r.length
			return
		}
	}
	c.runs = append(c.runs, r)
}

// large sends a file in pieces: those that the workspace has in its version of the file are
// copied there, the others are sent.
func (b *batch) large(out *syncwire.Encoder, frame syncwire.Frame, c *change, f *os.File) error {
	how, err := b.prepare(c, f)
	if err != nil {
		return err
	}
	frame.Size, frame.Digest, frame.Executable = how.size, how.digest, &c.want.Executable
	if err := out.Entry(frame); err != nil {
		return err
	}
	sent, err := writeRuns(out, f, c.path, how.runs, 0, how.size)
	b.bytes += sent
	return err
}

// apply sends the batch. A file that is too much for one request is staged first.
func (b *batch) apply(restart string) (*Applied, error) {
	alone := len(b.changes) == 1 && b.changes[0].want.Type == syncwire.File
	if alone && b.changes[0].want.Size > maxBatchBytes {
		if err := b.stage(false); err != nil {
			return nil, err
		}
	}
	applied, err := b.engine.opts.Remote.Apply(b.ctx, restart, b.write)
	if !alone || b.staged || !isTooLarge(err) || b.changes[0].want.Size <= MinPartBytes {
		return applied, err
	}
	refused := err
	b.bytes = 0
	if err := b.stage(true); err != nil {
		if isTooLarge(err) {
			err = refused // not even the least part is taken
		}
		return nil, err
	}
	return b.engine.opts.Remote.Apply(b.ctx, restart, b.write)
}

// stage stages the one file of the batch, if it is too much for one request or has to be.
func (b *batch) stage(must bool) error {
	c := &b.changes[0]
	f, err := openRegular(filepath.Join(b.engine.opts.Dir, c.path))
	if err != nil {
		return b.orMoved(c, err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return b.orMoved(c, err)
	}
	how, err := b.prepare(c, f)
	if err != nil {
		return b.orMoved(c, err)
	}
	if !must && how.fresh <= maxBatchBytes && how.size <= partSpan {
		return nil
	}
	u := Upload{
		Remote: b.engine.opts.Remote, Content: f, Size: how.size, Digest: how.digest, path: c.path, runs: how.runs, part: b.engine.part,
		OnProgress: b.engine.progress(c.path, how.size),
		check: func() error {
			// A file that is saved while it is sent is not the promised one any more: the rest is saved.
			if now, err := f.Stat(); err != nil || identityOf(now) != identityOf(before) {
				return errMoved
			}
			return nil
		},
	}
	err = u.Run(b.ctx)
	b.engine.part = u.part
	b.bytes += u.Sent
	if err != nil {
		return b.orMoved(c, err)
	}
	b.staged = true
	return nil
}

// cut reads a file.
func cut(f io.Reader) (chunks []syncwire.Chunk, size int64, digest string, err error) {
	sum := sha256.New()
	for cutter := syncwire.NewChunker(f); ; {
		chunk, data, err := cutter.Next()
		if errors.Is(err, io.EOF) {
			return chunks, size, hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err != nil {
			return nil, 0, "", err
		}
		sum.Write(data)
		size += chunk.Length
		chunks = append(chunks, chunk)
	}
}

// have tells where in the workspace's version of a file its chunks are. Not to know costs a file
// sent whole.
func (b *batch) have(c *change) map[syncwire.Chunk]int64 {
	if b.engine.whole || c.expect.Type != syncwire.File {
		return nil
	}
	chunks, ok := b.engine.chunks.lists[c.expect.Digest]
	if !ok {
		theirs, err := b.engine.opts.Remote.Chunks(b.ctx, c.path)
		if err != nil || theirs.Digest != c.expect.Digest {
			return nil
		}
		chunks = theirs.Chunks
	}
	have := make(map[syncwire.Chunk]int64, len(chunks))
	offset := int64(0)
	for _, chunk := range chunks {
		if _, twice := have[chunk]; !twice {
			have[chunk] = offset
		}
		offset += chunk.Length
	}
	return have
}
