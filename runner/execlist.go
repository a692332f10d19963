// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"net/http"
	"unicode/utf8"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

// maxListedCommand bounds the arguments of a command in the list, all together; what is longer is
// cut. At most twice execs.DefaultRunning commands are listed.
const maxListedCommand = 4 << 10

// listExecs lists the commands that run, and those that are remembered. The caller may run commands
// itself, and so see all processes: their arguments are no news.
func (s *server) listExecs(w http.ResponseWriter) {
	list := execwire.List{Commands: []execwire.Command{}}
	for _, c := range s.execs.List() {
		info := execwire.Command{ID: c.ID, Args: cutArgs(c.Args), Start: c.Began.UTC(), TTY: c.Terminal, Attached: c.Attached}
		if c.Exit != nil {
			info.ExitCode = &c.Exit.Code
		}
		list.Commands = append(list.Commands, info)
	}
	writeJSON(w, http.StatusOK, list)
}

// cutArgs bounds arguments. What is cut ends in "…".
func cutArgs(args []string) []string {
	left := maxListedCommand
	cut := make([]string, 0, len(args))
	for _, arg := range args {
		if len(arg) > left {
			for left > 0 && !utf8.RuneStart(arg[left]) {
				left--
			}
			return append(cut, arg[:left]+"…")
		}
		left -= len(arg)
		cut = append(cut, arg)
	}
	return cut
}

// observe tells how the command ends. The caller gets no output and the command keeps its client, or
// has none; it may signal the command and have it stopped.
func (e *execConn) observe(ctx context.Context, cancel context.CancelFunc) {
	go func() {
		defer cancel()
		e.receive(ctx, nil)
	}()
	if e.tell(ctx, execwire.Session{ID: e.session.ID()}) != nil {
		return
	}
	select {
	case <-e.session.Done():
		e.end(ctx, e.session.Exit())
	case <-ctx.Done():
	}
}
