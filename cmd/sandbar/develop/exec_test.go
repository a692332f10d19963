// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestExecPassesInputOutputAndTheExitCode(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	for name, c := range map[string]struct {
		args           []string
		input          string
		code           int
		stdout, stderr string
	}{
		"a command that fails": {[]string{"exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, "", 7, "out\n", "err\n"},
		"a command that reads": {[]string{"exec", "web", "-i", "--", "tr", "a-z", "A-Z"}, "hello\n", 0, "HELLO\n", ""},
		"a terminal":           {[]string{"exec", "web", "-t", "--", "sh", "-c", "test -t 1 && echo yes"}, "", 0, "yes\r\n", ""},
		"a terminal, and input that is piped": {
			[]string{"exec", "web", "-it", "--", "sh", "-c", "test -t 0 || cat"}, "abc", 0, "abc", "sandbar: stdin is not a terminal, so the command gets none: -t does not count\n",
		},
		"arguments as they are": {[]string{"exec", "web", "--", "printf", "%s|", "a b", "-x", "$HOME"}, "", 0, "a b|-x|$HOME|", ""},
		"killed by a signal":    {[]string{"exec", "web", "--", "sh", "-c", "kill -9 $$"}, "", 137, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := w.RunWith(t, strings.NewReader(c.input), c.args...)
			if code != c.code || stdout != c.stdout || stderr != c.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	for _, args := range [][]string{{"exec", "web"}, {"exec", "web", "ls"}, {"exec", "--", "ls"}} {
		if code, _, _ := w.Run(t, args...); code != cli.ExitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
	if code, _, stderr := w.Run(t, "exec", "web", "--", "no-such-program"); code != 127 || !strings.Contains(stderr, "no-such-program") {
		t.Errorf("a program that is not there: exit code %d, %q", code, stderr)
	}
}

// As issue 29 found, 200 arguments or a script of 20 KB did not fit into the address of a request.
func TestALongCommandIsRunAsItIs(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	var many []string
	for n := range 1000 {
		many = append(many, strconv.Itoa(n))
	}
	script := "echo begun\n" + strings.Repeat("# a comment\n", 8<<10) + "echo ended: $1"
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"many arguments":                    {append([]string{"sh", "-c", "echo $#", "sh"}, many...), 0, "1000\n", ""},
		"a long script":                     {[]string{"sh", "-c", script, "sh", "aéb"}, 0, "begun\nended: aéb\n", ""},
		"a program that is not there":       {append([]string{"no-such-program"}, many...), 127, "", "no-such-program"},
		"an argument that no program takes": {[]string{"echo", strings.Repeat("x", 129<<10)}, 126, "", "put what is longer into a file"},
		"more than all together may have":   {[]string{"echo", strings.Repeat("x", 2<<20)}, 126, "", "put what is longer into a file"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := w.Run(t, append([]string{"exec", "web", "--"}, c.args...)...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, stdout %.200q, stderr %.400q", code, stdout, stderr)
			}
		})
	}
}

// The command goes on while the connection is lost, and every byte of its output comes once.
func TestExecComesBackAfterALostConnection(t *testing.T) {
	w := newWorld(t)
	workspace := w.WithRunner(t, "")
	input, typing := io.Pipe()
	out, errs, ended := w.Begin(t.Context(), input, "exec", "web", "-i", "--", "sh", "-c",
		`echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; read line; echo "$line"; exit 3`)
	clitest.Await(t, out, "one\n")
	w.Cut()
	clitest.Put(t, workspace, "go", "")
	clitest.Await(t, errs, "the connection is lost")
	clitest.Await(t, errs, "attached again")
	_, _ = io.WriteString(typing, "three\n")
	if code := <-ended; code != 3 || out.String() != "one\ntwo\nthree\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestEnvSetsAndListsNamesOnly(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	if code, stdout, stderr := w.Run(t, "env", "web", "A=secret=1", "B=2"); code != 0 || stdout != "A\nB\n" || strings.Contains(stdout+stderr, "secret") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, stdout, _ := w.Run(t, "exec", "web", "--", "sh", "-c", "echo $A"); stdout != "secret=1\n" {
		t.Errorf("a command has %q", stdout)
	}
	if code, stdout, _ := w.Run(t, "env", "web", "A-"); code != 0 || stdout != "B\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if _, stdout, _ := w.Run(t, "env", "web"); stdout != "B\n" {
		t.Errorf("stdout %q", stdout)
	}
	if code, _, _ := w.Run(t, "env", "web", "A"); code != cli.ExitUsage {
		t.Errorf("exit code %d", code)
	}
}
