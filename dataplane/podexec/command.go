// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"crypto/rand"
	_ "embed"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable that marks the processes of a command.
const Variable = "SANDBAR_EXEC"

const (
	// Grace is how long processes have to end after SIGHUP, before SIGKILL.
	Grace = 2 * time.Second
	// StartPatience is how long processes are looked for that may not have begun yet: a caller can go before
	// the container runtime has started the command.
	StartPatience = 2 * time.Second
	// tenth is the unit in which the script counts.
	tenth = 100 * time.Millisecond
)

// program is what puts the mark into the environment of a command. It becomes the command, so that there is no
// further process, and all that the command starts inherits the mark.
const program = "env"

// shell runs the script that ends what is left.
const shell = "sh"

//go:embed scripts/end.sh
var endSource string

var endScript = withoutComments(endSource)

// withoutComments is a script as it is sent, with every command.
func withoutComments(script string) string {
	var kept strings.Builder
	for line := range strings.Lines(script) {
		if text := strings.TrimLeft(line, "\t"); text != "\n" && !strings.HasPrefix(text, "#") {
			kept.WriteString(text)
		}
	}
	return kept.String()
}

// Command is what a caller of exec asked for, with a mark of its own.
type Command struct {
	arguments []string
	tty       bool
	// mark is random, 128 bits: nobody can have his processes ended by guessing it, and a process that is
	// not of this command has it by no accident. It gives no right.
	mark string
}

// New returns a command with a new mark. ok is false if the command cannot be marked, since env would take its
// program for a variable.
func New(arguments []string, tty bool) (c Command, ok bool) {
	return Command{arguments: arguments, tty: tty, mark: rand.Text()}, !strings.Contains(arguments[0], "=")
}

// Marked returns what to run in place of the arguments. A program whose name begins with a dash is not an option of
// env behind a variable.
func (c *Command) Marked() []string {
	return append([]string{program, Variable + "=" + c.mark}, c.arguments...)
}

// End returns the command that ends the processes with the mark: with SIGHUP, and after Grace with SIGKILL. Until
// one is found it looks for as long as wait. It exits with 0 if none is left.
func (c *Command) End(wait time.Duration) []string {
	return []string{shell, "-c", endScript, "sandbar", Variable + "=" + c.mark, tenths(wait), tenths(Grace)}
}

func tenths(d time.Duration) string { return strconv.Itoa(int(d / tenth)) }
