// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"cmp"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// parseExec reads the parameters of GET /exec.
func (s *server) parseExec(values url.Values) (q execQuery, err error) {
	q.id = values.Get(execwire.ParamID)
	if q.observe, err = flag(values, execwire.ParamObserve); err != nil {
		return q, err
	}
	if q.message, err = flag(values, execwire.ParamMessage); err != nil {
		return q, err
	}
	switch {
	case q.message && len(values) > 1:
		return q, malformed("with message the command is in messages: no other parameter is taken")
	case q.message:
		return q, nil
	case q.observe && q.id == "":
		return q, malformed("observe needs the id of a command")
	case q.observe:
		return q, nil
	case q.id != "":
		offset, err := strconv.ParseInt(values.Get(execwire.ParamOffset), 10, 64)
		if err != nil || offset < 0 {
			return q, malformed("with id comes offset, an integer of at least 0")
		}
		q.offset = offset
		return q, nil
	}
	start, err := parseStart(values)
	if err != nil {
		return q, err
	}
	q.command, err = s.execCommand(start)
	return q, err
}

// parseStart reads the parameters of a new command.
func parseStart(values url.Values) (start execwire.Start, err error) {
	start.Args, start.Dir = values[execwire.ParamCommand], values.Get(execwire.ParamDir)
	if start.TTY, err = flag(values, execwire.ParamTTY); err != nil {
		return start, err
	}
	if start.Stdin, err = flag(values, execwire.ParamStdin); err != nil {
		return start, err
	}
	for name, to := range map[string]*uint16{execwire.ParamRows: &start.Rows, execwire.ParamColumns: &start.Columns} {
		if value := values.Get(name); value != "" {
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return start, malformed("%s must be an integer from 0 to 65535", name)
			}
			*to = uint16(n)
		}
	}
	return start, nil
}

// execCommand is the command that a client asks for, in an address or in messages.
func (s *server) execCommand(start execwire.Start) (execs.Command, error) {
	c := execs.Command{
		Args: start.Args, Env: s.environment(), Dir: cmp.Or(s.config.CommandDir, s.config.Workdir), Stdin: start.Stdin, Terminal: start.TTY,
		Size: execs.Size{Rows: start.Rows, Columns: start.Columns},
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return c, malformed("command is missing; it is given once for each argument")
	}
	for _, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return c, malformed("an argument contains a zero byte")
		}
	}
	if start.Dir != "" {
		if err := workspace.CheckPath(start.Dir); err != nil {
			return c, err
		}
		c.Dir = filepath.Join(c.Dir, start.Dir)
	}
	if c.Terminal && !hasVariable(c.Env, "TERM") {
		c.Env = append(c.Env, "TERM=xterm-256color")
	}
	return c, nil
}

func hasVariable(env []string, name string) bool {
	for _, pair := range env {
		if strings.HasPrefix(pair, name+"=") {
			return true
		}
	}
	return false
}
