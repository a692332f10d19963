// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// A log outlives its runner in two segment files, which are filled in turns: when
// one has half the capacity, the other is emptied and filled. What a reader has seen
// has been written before, so that a runner that is killed loses nothing of it and
// no offset is given twice. Nothing is synced: a loss of power can take the newest
// seconds away.
//
// A segment is a head, and a record for each time something was appended:
//
//	SANDBARLOG1 <id>\n
//	offset int64 | nanos int64 | length uint32 | stream uint8 | crc uint32 | bytes
//
// The app can write these files. Reading them takes no more memory than the ring
// has, and stops at the first thing that a runner would not have written.
const (
	segmentMagic = "SANDBARLOG1 "
	idBytes      = 26 // of rand.Text
	headBytes    = len(segmentMagic) + idBytes + 1
	recordBytes  = 25

	// maxOffset is the greatest integer that every JSON client reads exactly.
	maxOffset = 1<<53 - 1
)

// restarted is what a reader sees where a runner took over the log of another.
const restarted = "[sandbar: the runner was started again; what the app wrote in between is not in the log]\n"

// store writes what is appended to a ring.
type store struct {
	files  [2]*os.File
	at     int   // which one is filled
	size   int64 // of it
	limit  int64 // of each
	buf    []byte
	failed func(error)
}

// Open returns a ring with what the segments hold, whose log goes on in them. They
// are closed with [Ring.Close], or when writing to one fails: then failed is told
// why, once, the log goes on in memory, and the next runner begins a new one.
func Open(capacity int, segments [2]*os.File, failed func(error)) *Ring {
	r := New(capacity)
	s := &store{files: segments, limit: int64(len(r.data) / 2), failed: failed}
	older, newer := s.load(0), s.load(1)
	s.at = 1
	if older.id != newer.id && newer.id != "" && older.id != "" || older.first > newer.first || newer.id == "" {
		older, newer, s.at = newer, older, 0
	}
	if older.id == newer.id && older.next() == newer.first {
		r.restore(older)
	}
	r.restore(newer)
	r.store = s
	if newer.id == "" {
		s.begin(r)
		return r
	}
	r.id = newer.id
	s.size = newer.size
	// Behind the last good record; what a kill or the app left there is cut off.
	err := s.files[s.at].Truncate(s.size)
	if _, seekErr := s.files[s.at].Seek(s.size, io.SeekStart); err != nil || seekErr != nil {
		s.fail(r, errors.Join(err, seekErr))
		return r
	}
	if r.next > 0 {
		r.Append(Source{Stream: Stderr}, time.Now(), []byte(restarted))
	}
	return r
}

// Close closes the segments; what is appended later is not kept.
func (r *Ring) Close() {
	r.order.Lock()
	defer r.order.Unlock()
	if r.store != nil {
		r.store.close()
		r.store = nil
	}
}

func (s *store) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
}

// fail gives the segments up. What is in them is removed, so that the next runner
// does not go on with offsets that were given to other bytes.
func (s *store) fail(r *Ring, err error) {
	for _, f := range s.files {
		_ = f.Truncate(0)
	}
	s.close()
	r.store = nil
	s.failed(err)
}

// begin empties the other segment and goes on there.
func (s *store) begin(r *Ring) {
	s.at = 1 - s.at
	f := s.files[s.at]
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(segmentMagic+r.id+"\n"), 0)
	}
	if err == nil {
		_, err = f.Seek(int64(headBytes), io.SeekStart)
	}
	s.size = int64(headBytes)
	if err != nil {
		s.fail(r, err)
	}
}

// write keeps what is about to be appended. The ring's order is locked.
func (s *store) write(r *Ring, src Source, t time.Time, p []byte) {
	if s.size+recordBytes+int64(len(p)) > s.limit && s.size > int64(headBytes) {
		if s.begin(r); r.store == nil {
			return
		}
	}
	s.buf = binary.LittleEndian.AppendUint64(s.buf[:0], uint64(r.next))
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(t.UnixNano()))
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(len(p)))
	s.buf = append(s.buf, byte(src.Stream))
	s.buf = binary.LittleEndian.AppendUint32(s.buf, checksum(s.buf, p))
	s.buf = append(s.buf, p...)
	n, err := s.files[s.at].Write(s.buf)
	s.size += int64(n)
	if err != nil {
		s.fail(r, fmt.Errorf("keeping the log: %w", err))
	}
}

func checksum(head, p []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, p)
}

// segment is what a file holds.
type segment struct {
	id      string
	first   int64
	size    int64 // up to the end of the last good record
	records []record
}

type record struct {
	offset, nanos int64
	stream        Stream
	data          []byte
}

// next is the offset behind the last record.
func (s *segment) next() int64 {
	if len(s.records) == 0 {
		return s.first
	}
	last := s.records[len(s.records)-1]
	return last.offset + int64(len(last.data))
}

func (s *store) load(i int) segment {
	return parseSegment(io.NewSectionReader(s.files[i], 0, s.limit+recordBytes+MaxEntryBytes), s.limit)
}

// parseSegment reads records as long as they fit together.
func parseSegment(r io.Reader, limit int64) segment {
	in := bufio.NewReader(r)
	var s segment
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(in, head); err != nil ||
		string(head[:len(segmentMagic)]) != segmentMagic || head[headBytes-1] != '\n' {
		return s
	}
	s.id, s.size = string(head[len(segmentMagic):headBytes-1]), int64(headBytes)
	for i := range len(s.id) {
		if c := s.id[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return segment{} // it is sent in a header
		}
	}
	fixed := make([]byte, recordBytes)
	for s.size < limit {
		if _, err := io.ReadFull(in, fixed); err != nil {
			break
		}
		rec := record{
			offset: int64(binary.LittleEndian.Uint64(fixed)), nanos: int64(binary.LittleEndian.Uint64(fixed[8:])),
			stream: Stream(fixed[20]),
		}
		length := int64(binary.LittleEndian.Uint32(fixed[16:]))
		if length == 0 || length > limit || rec.offset < 0 || rec.offset > maxOffset-length ||
			rec.stream != Stdout && rec.stream != Stderr || len(s.records) > 0 && rec.offset != s.next() {
			break
		}
		rec.data = make([]byte, length)
		if _, err := io.ReadFull(in, rec.data); err != nil ||
			checksum(fixed[:21], rec.data) != binary.LittleEndian.Uint32(fixed[21:]) {
			break
		}
		if len(s.records) == 0 {
			s.first = rec.offset
		}
		s.records = append(s.records, rec)
		s.size += recordBytes + length
	}
	return s
}

// restore puts the records of an earlier runner into an empty ring, or behind those
// that came before. Their attempt is 0, which no attempt of this runner is.
func (r *Ring) restore(s segment) {
	for _, rec := range s.records {
		if r.count == 0 {
			r.next = rec.offset
		}
		r.Append(Source{Stream: rec.stream}, time.Unix(0, rec.nanos), rec.data)
	}
}
