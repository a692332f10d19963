// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"context"
	"sort"
	"time"
)

const (
	// batchBytes is how much a reader copies at most in one turn, unless one entry is
	// longer, and so what a reader costs in memory: a hundred of them read a log.
	batchBytes = 32 << 10

	// batchEntries bounds the entries of a batch likewise.
	batchEntries = 512
)

// Entry is one line with its newline, or a piece of a line without one.
type Entry struct {
	Source
	// Time is when the runner read the entry from the app.
	Time time.Time
	// Offset is the offset of the first byte of Data.
	Offset int64
	// Data is valid until the batch is filled again.
	Data []byte
}

// Batch is what [Reader.Fill] found. It is reused from call to call.
type Batch struct {
	// Lost counts the bytes, of both streams, that left the ring before the
	// reader came to them. They came before Entries.
	Lost int64
	// First is the offset of the first byte behind what was lost.
	First int64
	// Entries are in order of their offsets.
	Entries []Entry

	data []byte
}

// Reader is a position in a ring. It is used by one goroutine.
type Reader struct {
	ring    *Ring
	streams Stream
	next    int64
}

// Reader returns a reader of the given streams that begins at offset. An offset
// that the ring does not have yet is taken as its end.
func (r *Ring) Reader(offset int64, streams Stream) *Reader {
	_, next := r.Bounds()
	return &Reader{ring: r, streams: streams, next: min(max(offset, 0), next)}
}

// Offset is the offset of the next byte that the reader has not looked at.
func (rd *Reader) Offset() int64 { return rd.next }

// Fill replaces what is in b by the next entries before offset limit and moves
// the reader behind them. It does not wait. It returns false when there is
// nothing before limit that the reader has not seen.
func (rd *Reader) Fill(b *Batch, limit int64) bool {
	b.Lost, b.Entries, b.data = 0, b.Entries[:0], b.data[:0]
	r := rd.ring
	r.mu.Lock()
	defer r.mu.Unlock()

	if first := r.first(); rd.next < first {
		b.Lost = first - rd.next
		rd.next, b.First = first, first
	}
	limit = min(limit, r.next)
	if rd.next >= limit {
		return b.Lost > 0
	}
	if cap(b.data) == 0 {
		b.data = make([]byte, 0, batchBytes)
	}
	i := sort.Search(r.count, func(i int) bool {
		e := r.at(i)
		return e.offset+int64(e.length) > rd.next
	})
	for ; i < r.count && len(b.Entries) < batchEntries; i++ {
		e := r.at(i)
		from := max(e.offset, rd.next)
		// Only the first entry may make the buffer grow, and so move: the slices of
		// those before stay valid.
		if e.offset >= limit || len(b.Entries) > 0 && len(b.data)+int(e.offset+int64(e.length)-from) > cap(b.data) {
			break
		}
		rd.next = e.offset + int64(e.length)
		if e.stream&rd.streams == 0 {
			continue
		}
		begin := len(b.data)
		b.data = r.bytes(b.data, from, rd.next)
		b.Entries = append(b.Entries, Entry{
			Source: Source{Stream: e.stream, Attempt: e.attempt},
			Time:   time.Unix(0, e.nanos), Offset: from, Data: b.data[begin:len(b.data):len(b.data)],
		})
	}
	return true
}

// Wait returns nil when the ring holds bytes that the reader has not seen, and
// the context's error when it ends first.
func (rd *Reader) Wait(ctx context.Context) error {
	r := rd.ring
	r.mu.Lock()
	if rd.next < r.next {
		r.mu.Unlock()
		return nil
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	wake := r.wake
	r.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
