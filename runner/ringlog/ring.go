// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"bytes"
	"crypto/rand"
	"sync"
	"time"
)

const (
	// DefaultCapacity is the size of a ring unless told otherwise: 4 MiB, about
	// 40,000 lines of usual length.
	DefaultCapacity = 4 << 20

	// MinCapacity keeps room for at least a few entries of the greatest length.
	MinCapacity = 256 << 10

	// MaxEntryBytes bounds one entry. A longer line is kept as several entries,
	// of which only the last ends in a newline, so that a line of any length
	// costs bounded memory and never makes the writer wait.
	MaxEntryBytes = 64 << 10

	// entryOverhead is what the ring charges for an entry besides its bytes. An
	// app that writes nothing but newlines would otherwise hold thirty times the
	// capacity in bookkeeping.
	entryOverhead = 32
)

// Stream names one of the two output streams of the app.
type Stream uint8

// The streams, usable as a set by or-ing them.
const (
	Stdout Stream = 1 << iota
	Stderr

	All = Stdout | Stderr
)

// String returns stdout, stderr or all.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	default:
		return "all"
	}
}

// Source is what wrote an entry: one stream of one attempt at running the app.
// Pieces of a line belong together only within one source.
type Source struct {
	Stream  Stream
	Attempt uint32
}

// entry describes one line, or one piece of a longer line, in the ring's bytes.
type entry struct {
	offset  int64
	nanos   int64
	length  uint32
	attempt uint32
	stream  Stream
	// ends is true when the entry's last byte is a newline.
	ends bool
}

// Ring is a bounded log. All methods may be called from any goroutine.
type Ring struct {
	id string

	// order is held while something is appended, ahead of mu: what is kept on disk is
	// written before readers see it, and no reader waits for the disk.
	order sync.Mutex
	store *store // nil without one

	mu sync.Mutex

	// data is a circular buffer; the byte with offset o lies at o modulo its
	// length. The bytes of [entries[head].offset, next) are held.
	data []byte
	next int64

	// entries is a circular queue of count entries that begins at head.
	entries []entry
	head    int
	count   int

	// wake is closed, and forgotten, when bytes arrive. It exists only while
	// somebody waits.
	wake chan struct{}
}

// New returns an empty ring that holds at most capacity bytes, bookkeeping
// included. A capacity below [MinCapacity] is raised to it.
func New(capacity int) *Ring {
	return &Ring{id: rand.Text(), data: make([]byte, max(capacity, MinCapacity)), entries: make([]entry, 64)}
}

// ID names the log: offsets of another one mean nothing in it. It changes when a log
// could not be kept across a restart of the runner.
func (r *Ring) ID() string { return r.id }

// Append adds what src wrote at time t: any number of whole lines, and at the end
// possibly a piece of one. It never waits for a reader.
func (r *Ring) Append(src Source, t time.Time, p []byte) {
	if len(p) == 0 {
		return
	}
	nanos := t.UnixNano()
	r.order.Lock()
	defer r.order.Unlock()
	if r.store != nil {
		r.store.write(r, src, t, p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.notify()
	for len(p) > 0 {
		n, ends := bytes.IndexByte(p[:min(len(p), MaxEntryBytes)], '\n')+1, true
		if n == 0 {
			n, ends = min(len(p), MaxEntryBytes), false
		}
		r.push(entry{
			offset: r.next, nanos: nanos, length: uint32(n),
			attempt: src.Attempt, stream: src.Stream, ends: ends,
		}, p[:n])
		p = p[n:]
	}
}

// AppendRaw adds what src wrote as one entry, in memory alone, whatever lines it has; p has at most
// [MaxEntryBytes]. It is for output that is sent on as it comes.
func (r *Ring) AppendRaw(src Source, t time.Time, p []byte) {
	if len(p) == 0 {
		return
	}
	r.order.Lock()
	defer r.order.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.notify()
	r.push(entry{
		offset: r.next, nanos: t.UnixNano(), length: uint32(len(p)),
		attempt: src.Attempt, stream: src.Stream,
	}, p)
}

// notify wakes whoever waits. mu is held.
func (r *Ring) notify() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// push makes room for one entry and stores it.
func (r *Ring) push(e entry, p []byte) {
	for r.count > 0 && r.charge()+len(p)+entryOverhead > len(r.data) {
		r.head = (r.head + 1) % len(r.entries)
		r.count--
	}
	if r.count == len(r.entries) {
		grown := make([]entry, 2*len(r.entries))
		n := copy(grown, r.entries[r.head:])
		copy(grown[n:], r.entries[:r.head])
		r.entries, r.head = grown, 0
	}
	r.entries[(r.head+r.count)%len(r.entries)] = e
	r.count++

	at := int(r.next % int64(len(r.data)))
	n := copy(r.data[at:], p)
	copy(r.data, p[n:])
	r.next += int64(len(p))
}

// charge is the memory that the held entries count for.
func (r *Ring) charge() int {
	return int(r.next-r.first()) + r.count*entryOverhead
}

// first is the offset of the oldest byte held.
func (r *Ring) first() int64 {
	if r.count == 0 {
		return r.next
	}
	return r.entries[r.head].offset
}

// at returns the i-th oldest entry.
func (r *Ring) at(i int) *entry {
	return &r.entries[(r.head+i)%len(r.entries)]
}

// bytes appends the bytes of the ring from offset from to offset to.
func (r *Ring) bytes(dst []byte, from, to int64) []byte {
	size := int64(len(r.data))
	for from < to {
		at := from % size
		n := min(to-from, size-at)
		dst = append(dst, r.data[at:at+n]...)
		from += n
	}
	return dst
}

// Bounds returns the offset of the oldest byte that is held and the offset that
// the next byte will get.
func (r *Ring) Bounds() (first, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first(), r.next
}

// Tail returns the offset at which the last lines of the given streams begin. A
// last line without a newline counts as a line.
func (r *Ring) Tail(lines int, streams Stream) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lines <= 0 {
		return r.next
	}
	var (
		start = r.next
		found int
		later *entry
	)
	for i := r.count - 1; i >= 0; i-- {
		e := r.at(i)
		if e.stream&streams == 0 {
			continue
		}
		// An entry is the end of a line when it says so, or when nothing of the
		// same source goes on with it.
		if e.ends || later == nil || later.stream != e.stream || later.attempt != e.attempt {
			if found++; found > lines {
				break
			}
		}
		start, later = e.offset, e
	}
	return start
}

// Since returns the offset of the first entry that was written at or after t.
func (r *Ring) Since(t time.Time) int64 {
	nanos := t.UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.count {
		if e := r.at(i); e.nanos >= nanos {
			return e.offset
		}
	}
	return r.next
}
