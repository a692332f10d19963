// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package keptlog

import (
	"bytes"
	"encoding/json"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
)

// Question is which lines are wanted.
type Question struct {
	// Tail is how many at most, of the end; negative for all.
	Tail int
	// Since leaves out what is older; zero for no bound.
	Since time.Time
	// Timestamps leaves the time before each line.
	Timestamps bool
}

// Lines returns the wanted lines of a container.
func (c *Container) Lines(q Question) []byte {
	var lines [][]byte
	for line := range bytes.Lines(c.Text) {
		stamp, text, ok := bytes.Cut(line, []byte(" "))
		at, err := time.Parse(time.RFC3339Nano, string(stamp))
		if !ok || err != nil { // the rest of a line that was cut
			text, at = line, time.Time{}
		}
		if !q.Since.IsZero() && at.Before(q.Since) || c.Runner && FromRunner(text) {
			continue
		}
		if !q.Timestamps {
			line = text
		}
		lines = append(lines, line)
	}
	if q.Tail >= 0 {
		lines = lines[max(0, len(lines)-q.Tail):]
	}
	return bytes.Join(lines, nil)
}

// FromRunner reports whether a line of a container's log is one that the runner wrote of itself.
func FromRunner(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("{")) || !bytes.Contains(line, []byte(logwire.RunnerLogger)) {
		return false
	}
	var entry struct {
		Logger string `json:"logger"`
	}
	return json.Unmarshal(line, &entry) == nil && entry.Logger == logwire.RunnerLogger
}
