// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"fmt"
	"time"
)

// timestampLayout is RFC 3339 with nanoseconds of fixed width, so that
// timestamps sort as text.
const timestampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// Renderer writes entries as plain text: each line as the app wrote it, and
// between a line's piece and an entry of another source a line break, so that
// two streams never share a line. The zero value is ready to use, by one
// goroutine.
type Renderer struct {
	// Timestamps puts the time (UTC) and a space before each line.
	Timestamps bool

	open   bool
	source Source
}

// Append appends the text of a batch to dst.
func (t *Renderer) Append(dst []byte, b *Batch) []byte {
	if b.Lost > 0 {
		dst = t.gap(dst, b.Lost)
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if t.open && t.source != e.Source {
			dst = append(dst, '\n')
			t.open = false
		}
		if !t.open && t.Timestamps {
			dst = e.Time.UTC().AppendFormat(dst, timestampLayout)
			dst = append(dst, ' ')
		}
		dst = append(dst, e.Data...)
		t.open = e.Data[len(e.Data)-1] != '\n'
		t.source = e.Source
	}
	return dst
}

// gap appends the line that stands for bytes which nobody can read any more.
func (t *Renderer) gap(dst []byte, lost int64) []byte {
	if t.open {
		dst = append(dst, '\n')
		t.open = false
	}
	if t.Timestamps {
		dst = time.Now().UTC().AppendFormat(dst, timestampLayout)
		dst = append(dst, ' ')
	}
	return fmt.Appendf(dst, "[sandbar: gap, %d bytes of log were dropped before they could be read]\n", lost)
}
