// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/sandbar-dev/sandbar/runner/syncwire"
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

// piece is a range of a file.
type piece struct{ offset, length int64 }

// large sends a file in pieces: those that the workspace has in its version of the file are
// copied there, the others are sent.
func (b *batch) large(out *syncwire.Encoder, frame syncwire.Frame, c *change, f *os.File) error {
	chunks, size, digest, err := cut(f)
	if err != nil {
		return err
	}
	if digest != c.want.Digest {
		b.isNewer(c, digest, size)
	}
	have := b.have(c)
	b.engine.chunks.put(digest, chunks)
	frame.Size, frame.Digest, frame.Executable = size, digest, &c.want.Executable
	if err := out.Entry(frame); err != nil {
		return err
	}
	buffer := make([]byte, syncwire.MaxChunkBytes)
	for i, offset := 0, int64(0); i < len(chunks); {
		if at, ok := have[chunks[i]]; ok {
			// Chunks that follow one another on both sides are one copy.
			run := piece{at, chunks[i].Length}
			for i++; i < len(chunks); i++ {
				if next, ok := have[chunks[i]]; !ok || next != run.offset+run.length {
					break
				}
				run.length += chunks[i].Length
			}
			if err := out.Copy(c.path, run.offset, run.length); err != nil {
				return err
			}
			offset += run.length
			continue
		}
		data := buffer[:chunks[i].Length]
		if _, err := f.ReadAt(data, offset); err != nil {
			if errors.Is(err, io.EOF) {
				return errMoved // it has become shorter
			}
			return err
		}
		if err := out.Data(data); err != nil {
			return err
		}
		b.bytes += chunks[i].Length
		offset += chunks[i].Length
		i++
	}
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
