// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// meterBytes is from what size on a copy shows how far it is; meterEvery is how often.
	meterBytes = 8 << 20
	meterEvery = 200 * time.Millisecond
)

// meter shows on a terminal how far the copy of a large file is, one file after the other.
type meter struct {
	out      io.Writer
	terminal bool
	shown    time.Time
}

// at shows how much was copied.
func (m *meter) at(p session.CopyProgress) {
	if !m.terminal || max(p.Size, p.Done) < meterBytes || time.Since(m.shown) < meterEvery {
		return
	}
	m.shown = time.Now()
	of := ""
	if p.Size >= 0 {
		of = " of " + BytesOf(p.Size)
	}
	fmt.Fprintf(m.out, "\r%s: %s%s\x1b[K", termsafe.Line(p.Path), BytesOf(p.Done), of)
}

// end takes away what at shows.
func (m *meter) end() {
	if !m.shown.IsZero() {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = time.Time{}
	}
}
