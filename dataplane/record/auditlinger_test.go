// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// writes notes when something was written, and how many lines.
type writes struct {
	start time.Time
	after []time.Duration
	lines []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.after = append(w.after, time.Since(w.start))
	w.lines = append(w.lines, bytes.Count(p, []byte("\n")))
	return len(p), nil
}

func (*writes) Close() error { return nil }

func TestTheAuditLogWaitsForMoreLines(t *testing.T) {
	line := bytes.Repeat([]byte("x"), 1000)
	for name, c := range map[string]struct {
		lines int
		after time.Duration
	}{
		"one line waits for others":                {1, auditLinger},
		"lines that come together go together":     {100, auditLinger},
		"more than is written at once do not wait": {auditBatchBytes/1000 + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &writes{start: time.Now()}
				w := newAuditWriter(out, NewMetrics("test"), slog.New(slog.DiscardHandler))
				for range c.lines {
					w.add(line)
				}
				go w.run() // now, or it may take all but the last line, which then waits
				time.Sleep(time.Second)
				synctest.Wait()
				total := 0
				for _, n := range out.lines {
					total += n
				}
				if total != c.lines || len(out.after) > 2 || out.after[0] != c.after {
					t.Errorf("%v lines after %v, want %d after %v", out.lines, out.after, c.lines, c.after)
				}
				closing := time.Now()
				w.add(line)
				if err := w.close(); err != nil || time.Since(closing) != 0 || out.lines[len(out.lines)-1] != 1 {
					t.Errorf("closing took %v and gave %v: %v", time.Since(closing), out.lines, err)
				}
			})
		})
	}
}
