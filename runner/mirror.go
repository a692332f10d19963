// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"io"
	"log/slog"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

const (
	// mirrorRate and mirrorBurst bound what of the app's output the container's log gets, in bytes a
	// second and at once: the kubelet keeps 10 MiB of it, and the ring has all of it anyway.
	mirrorRate  = 64 << 10
	mirrorBurst = 512 << 10
	// mirrorEnd is how much of the end is written in any case once the app has ended.
	mirrorEnd = 64 << 10
)

// mirror writes what the app prints to the container's own output too, where kubectl logs and an
// operator's collector find it, and where the controllers read the end of it before a suspension. It
// never slows the app: what is too much for it is left out, and that is said.
type mirror struct {
	ring           *ringlog.Ring
	stdout, stderr io.Writer
	logger         *slog.Logger
	limit          *rate.Limiter
	reader         *ringlog.Reader
	batch          ringlog.Batch
}

// mirrorUntil mirrors until the app has ended for good. The channel is closed when all is written.
func mirrorUntil(ended <-chan struct{}, ring *ringlog.Ring, config Config, logger *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	if config.Stdout == nil || config.Stderr == nil {
		close(done)
		return done
	}
	m := newMirror(ring, config.Stdout, config.Stderr, logger)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-ended
		cancel()
	}()
	go func() {
		defer close(done)
		m.run(ctx)
	}()
	return done
}

// newMirror begins at the end of what an earlier runner left in the ring.
func newMirror(ring *ringlog.Ring, stdout, stderr io.Writer, logger *slog.Logger) *mirror {
	_, end := ring.Bounds()
	return &mirror{
		ring: ring, stdout: stdout, stderr: stderr, logger: logger, limit: rate.NewLimiter(mirrorRate, mirrorBurst),
		reader: ring.Reader(end, ringlog.All),
	}
}

// run writes until the context ends, which is when the app has, and then the end of what is left.
func (m *mirror) run(ctx context.Context) {
	for m.reader.Wait(ctx) == nil && m.write(math.MaxInt64) == nil && m.pause(ctx) {
	}
	_, end := m.ring.Bounds()
	m.skip(end - mirrorEnd)
	_ = m.write(end) // a container whose output nobody takes has nobody to tell
}

// write writes what lies before limit.
func (m *mirror) write(limit int64) error {
	for m.reader.Fill(&m.batch, limit) {
		m.leftOut(m.batch.Lost)
		for i := range m.batch.Entries {
			e := &m.batch.Entries[i]
			out := m.stdout
			if e.Stream == ringlog.Stderr {
				out = m.stderr
			}
			if _, err := out.Write(e.Data); err != nil {
				m.logger.Warn("the container's log gets no more of what the app prints; GET /logs has it", "error", err)
				return err
			}
			m.limit.AllowN(time.Now(), min(len(e.Data), mirrorBurst))
		}
		if limit == math.MaxInt64 && m.limit.Tokens() < mirrorEnd {
			return nil
		}
	}
	return nil
}

// pause waits until there is room for more, and passes over what the app printed meanwhile but for the
// end of it.
func (m *mirror) pause(ctx context.Context) bool {
	if m.limit.Tokens() >= mirrorEnd {
		return true
	}
	if m.limit.WaitN(ctx, mirrorBurst/2) != nil {
		return false
	}
	_, end := m.ring.Bounds()
	m.skip(end - mirrorEnd)
	return true
}

// skip passes over what lies before an offset.
func (m *mirror) skip(offset int64) {
	if missed := offset - m.reader.Offset(); missed > 0 {
		m.reader = m.ring.Reader(offset, ringlog.All)
		m.leftOut(missed)
	}
}

func (m *mirror) leftOut(bytes int64) {
	if bytes > 0 {
		m.logger.Info("the app prints more than the container's log gets; GET /logs has it", "leftOutBytes", bytes)
	}
}
