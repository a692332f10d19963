// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
)

// The cut of a file into chunks. A cut depends on the bytes before it alone, so an
// inserted line moves the chunks behind it and changes one, at most two of them:
// 192 KiB travel at the very most, however large the file.
const (
	// MinChunkBytes and MaxChunkBytes bound a chunk.
	MinChunkBytes = 8 << 10
	MaxChunkBytes = 96 << 10

	// chunkBits is how many bits of the rolling hash are zero at a cut: one place in
	// 32 Ki is one.
	chunkBits = 15

	// hashWindow is how many bytes the rolling hash takes in: each step shifts one bit
	// of its 64 out.
	hashWindow = 64

	// chunkIDBytes is how much of a chunk's SHA-256 names it.
	chunkIDBytes = 16
)

// gear has a number for every byte value, derived so that any implementation can
// make the same table: the first eight bytes, big endian, of SHA-256("sandbar gear"
// followed by the byte).
var gear = func() (table [256]uint64) {
	for i := range table {
		sum := sha256.Sum256(append([]byte("sandbar gear"), byte(i)))
		table[i] = binary.BigEndian.Uint64(sum[:])
	}
	return table
}()

// Chunker cuts a stream.
type Chunker struct {
	in  *bufio.Reader
	buf []byte
}

// NewChunker returns a chunker of what r has.
func NewChunker(r io.Reader) *Chunker {
	return &Chunker{in: bufio.NewReaderSize(r, MaxChunkBytes), buf: make([]byte, MaxChunkBytes)}
}

// Next returns the next chunk and its bytes, which are valid until the next call.
// It returns io.EOF behind the last one.
func (c *Chunker) Next() (Chunk, []byte, error) {
	window, err := c.in.Peek(MaxChunkBytes)
	if len(window) == 0 {
		return Chunk{}, nil, err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Chunk{}, nil, err
	}
	n := copy(c.buf, window[:cut(window)])
	// It cannot fail: the bytes are in the buffer.
	_, _ = c.in.Discard(n)
	sum := sha256.Sum256(c.buf[:n])
	return Chunk{Length: int64(n), ID: hex.EncodeToString(sum[:chunkIDBytes])}, c.buf[:n], nil
}

// cut returns the length of the chunk that window begins with.
func cut(window []byte) int {
	if len(window) <= MinChunkBytes {
		return len(window)
	}
	var hash uint64
	for i := MinChunkBytes - hashWindow; i < len(window); i++ {
		hash = hash<<1 + gear[window[i]]
		// The topmost bits have seen the most bytes.
		if i >= MinChunkBytes && hash>>(hashWindow-chunkBits) == 0 {
			return i
		}
	}
	return len(window)
}
