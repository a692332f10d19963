// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package logwire is what a client and the runner say to each other when a log is read: the
// lines of GET /logs?format=json. Plain text is for people; it cannot be resumed exactly, since
// timestamps, gap markers and the line breaks between two streams are no part of what the app
// wrote.
//
// Programs import it as logwire, because package log is the standard library's. testdata has golden
// files, which tests of this package, the runner and the client read; other SDKs' tests can too.
//
// # Boundary
//
// The package depends on the standard library alone and builds everywhere.
package logwire

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	// ContentType marks a log of records, one JSON object a line.
	ContentType = "application/x-ndjson"
	// OffsetHeader tells at which offset an answer begins.
	OffsetHeader = "X-Sandbox-Log-Offset"
	// RunnerLogger is the attribute "logger" of the lines that the runner writes of itself to its
	// container's output, which has its app's lines too.
	RunnerLogger = "sandbar-runner"
	// KeptHeader is in the answer of an instance that is suspended: when what is answered was kept (RFC
	// 3339). It is plain text without offsets.
	KeptHeader = "X-Sandbox-Log-Kept"
	// IDHeader names the log that offsets count in. Offsets of one log mean nothing in another.
	// A runner that is started anew goes on with the log, unless its volume lost it.
	IDHeader = "X-Sandbox-Log-Id"
)

// MaxRecordBytes bounds a line of a log of records: a piece of 64 KiB of which every byte is
// escaped, and the rest.
const MaxRecordBytes = 512 << 10

// Record is a line of the app's output, a piece of a line that is longer than 64 KiB, or a gap.
type Record struct {
	// Offset of the first byte; for a gap, of the first byte behind it.
	Offset int64
	// Time is when the runner read it from the app; zero for a gap.
	Time time.Time
	// Stream is stdout or stderr; empty for a gap.
	Stream string
	// Attempt counts the starts of the app.
	Attempt uint32
	// Data are the bytes as the app wrote them, with the line's newline if it has one.
	Data []byte
	// Lost counts the bytes of all streams that nobody can read any more; zero but for a gap.
	Lost int64
}

// Next is the offset from which a reader that has the record goes on.
func (r *Record) Next() int64 { return r.Offset + int64(len(r.Data)) }

// record is the JSON of a Record, as it is read.
type record struct {
	Offset  int64     `json:"offset"`
	Time    time.Time `json:"time,omitzero"`
	Stream  string    `json:"stream,omitempty"`
	Attempt uint32    `json:"attempt,omitempty"`
	// Text is the data where it is UTF-8, and Data in base64 where it is not: package json
	// would replace what it cannot write, and two logs would become one.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
	Lost int64  `json:"lost,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON adds the record to dst, as UnmarshalJSON reads it. A log is many small records, of
// which package json would make several allocations each.
func (r *Record) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"offset":`...), r.Offset, 10)
	if !r.Time.IsZero() {
		dst = r.Time.AppendFormat(append(dst, `,"time":"`...), time.RFC3339Nano)
		dst = append(dst, '"')
	}
	if r.Stream != "" {
		dst = appendString(append(dst, `,"stream":`...), r.Stream)
	}
	if r.Attempt != 0 {
		dst = strconv.AppendUint(append(dst, `,"attempt":`...), uint64(r.Attempt), 10)
	}
	switch {
	case len(r.Data) == 0:
	case utf8.Valid(r.Data):
		dst = appendString(append(dst, `,"text":`...), r.Data)
	default:
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"data":"`...), r.Data)
		dst = append(dst, '"')
	}
	if r.Lost != 0 {
		dst = strconv.AppendInt(append(dst, `,"lost":`...), r.Lost, 10)
	}
	return append(dst, '}')
}

// appendString adds a JSON string. What is not ASCII stands for itself; s has to be UTF-8.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[begin:i]...)
		begin = i + 1
		switch c {
		case '\n':
			dst = append(dst, '\\', 'n')
		case '"', '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[begin:]...), '"')
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Record) UnmarshalJSON(b []byte) (err error) {
	*r, err = Parse(b)
	return err
}
