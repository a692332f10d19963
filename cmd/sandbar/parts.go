// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// part is a directory of the project and the workspace that it is kept alike with.
type part struct {
	// component is empty for an instance that is one workspace.
	component string
	// at is where the part lies in the project; "." for all of it.
	at       string
	dir      string
	instance *client.Instance
}

// parts are those of an instance that --component names, or all. Those of which the project has
// no directory are left out and named.
func (s *session) parts(ctx context.Context, args []string, notes io.Writer) ([]part, error) {
	dir := append(args, ".")[1]
	i, err := s.find(ctx, args[0])
	if err != nil {
		return nil, err
	}
	var components map[string]client.DevelopedComponent
	if i.Resource() != client.SandboxRunners {
		if components, err = i.Components(ctx); err != nil {
			return nil, err
		}
	}
	if len(components) == 0 {
		return []part{{at: ".", dir: dir, instance: i.Component(s.component)}}, nil
	}
	names := slices.Sorted(maps.Keys(components))
	if s.component != "" {
		if !slices.Contains(names, s.component) {
			return nil, &usageError{fmt.Errorf("the component %q cannot be developed; there are %s", s.component, strings.Join(names, ", "))}
		}
		names = []string{s.component}
	}
	var parts []part
	for _, name := range names {
		at := path.Clean(components[name].WorkspacePath)
		p := part{component: name, at: at, dir: filepath.Join(dir, filepath.FromSlash(at)), instance: i.Component(name)}
		if _, err := os.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
			say(notes, "%s has no directory %s, so the component %s is left alone", dir, at, name)
			continue
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, &usageError{fmt.Errorf("%s has no directory of a component", dir)}
	}
	return parts, nil
}

// open opens the engine of a part.
func (p part) open(opts devsync.Options) (*devsync.Engine, error) {
	opts.Dir, opts.Remote, opts.ID = p.dir, p.instance.Workspace(), p.instance.ID()
	return devsync.Open(opts)
}

// linePrefix puts the name of a component before each line. Half a line waits for its rest, so
// that lines of several components do not mix.
type linePrefix struct {
	out    io.Writer
	prefix string
	half   []byte
}

// maxHalfLine is how much of a line waits for its rest.
const maxHalfLine = 64 << 10

// prefixed is out itself for an instance that is one workspace.
func prefixed(out io.Writer, component string) io.Writer {
	if component == "" {
		return out
	}
	return &linePrefix{out: out, prefix: component + " | "}
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
