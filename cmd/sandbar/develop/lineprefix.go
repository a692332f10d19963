// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"io"
	"strings"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// linePrefix puts the name of a component before each line. Half a line waits for its rest, so
// that lines of several components do not mix.
type linePrefix struct {
	out    io.Writer
	prefix string
	half   []byte
	// terminal: of a line that began again, the last beginning counts.
	terminal bool
}

// maxHalfLine is how much of a line waits for its rest.
const maxHalfLine = 64 << 10

// prefixed is out itself for an instance that is one workspace.
func prefixed(out io.Writer, component string) io.Writer {
	if component == "" {
		return out
	}
	return &linePrefix{out: out, prefix: component + " | ", terminal: cli.Terminal(out)}
}

// finish ends half a line that waits for its rest: there is none.
func (l *linePrefix) finish() error {
	if len(l.half) == 0 {
		return nil
	}
	_, err := l.Write([]byte("\n"))
	return err
}

func (l *linePrefix) Write(text []byte) (int, error) {
	var whole []byte
	for line := range strings.Lines(string(text)) {
		l.half = append(l.half, line...)
		if !strings.HasSuffix(line, "\n") {
			if len(l.half) < maxHalfLine {
				break
			}
			l.half = append(l.half, '\n')
		}
		if at := bytes.LastIndex(l.half, []byte(termsafe.LineAgain)); l.terminal && at >= 0 {
			l.half = append(l.half[:0], l.half[at+len(termsafe.LineAgain):]...)
		}
		whole = append(append(whole, l.prefix...), l.half...)
		l.half = l.half[:0]
	}
	if len(whole) == 0 {
		return len(text), nil
	}
	if _, err := l.out.Write(whole); err != nil {
		return 0, err
	}
	return len(text), nil
}
