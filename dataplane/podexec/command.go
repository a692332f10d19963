// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"strconv"
	"strings"
	"time"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

const (
	// MaxSaid bounds what a shell may print before it says which process it is, and that itself, in bytes.
	MaxSaid = 16 << 10
	// startField is where /proc/PID/stat has the start of a process, in clock ticks since the node's boot,
	// counted from the PID.
	startField = 20
	// Grace is how long a process has to end after the first signal, before it is killed.
	Grace = 2 * time.Second

	// What the script of a command's begin says in place of a process.
	saysOther = "other"
	saysNever = "never"
	endOfWord = ";"
)

var (
	//go:embed scripts/begin.sh
	beginSource string
	//go:embed scripts/end.sh
	endSource string

	beginScript, endScript = withoutComments(beginSource), withoutComments(endSource)
)

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

// Command is what a caller of exec asked for.
type Command struct {
	Arguments []string
	// Stdout, Stderr and TTY tell which outputs there are.
	Stdout, Stderr, TTY bool
	// mark is what nothing but the script of this command prints.
	mark string
}

// New returns a command whose process can be found; ok is false if it has no output on which it could be
// named.
func New(arguments []string, stdout, stderr, tty bool) (c Command, ok bool) {
	c = Command{Arguments: arguments, Stdout: stdout, Stderr: stderr && !tty, TTY: tty, mark: rand.Text() + " "}
	return c, c.Stdout || c.Stderr
}

// channel is the output on which the process is named. Of two it is that on which a shell complains about
// its environment, since what comes before is dropped.
func (c *Command) channel() byte {
	if c.Stderr {
		return execwire.ChannelStderr
	}
	return execwire.ChannelStdout
}

// Started returns what to run in place of the arguments. checked is set if the same program was named before
// in the same container; the script then does not look again whether it can be.
func (c *Command) Started(checked bool) []string {
	look := "no"
	if checked {
		look = "yes"
	}
	return append([]string{"sh", "-c", beginScript, c.mark, strconv.Itoa(int(c.channel())), look}, c.Arguments...)
}

// Process is one of a container, by its number there and by its start.
type Process struct {
	pid, start uint64
	tty        bool
}

// ended returns the command that ends the process.
func (p Process) ended() []string {
	signal := "TERM"
	if p.tty {
		signal = "HUP"
	}
	return []string{
		"sh", "-c", endScript, "sandbar", strconv.FormatUint(p.pid, 10), strconv.FormatUint(p.start, 10), signal,
		strconv.Itoa(int(Grace / (100 * time.Millisecond))),
	}
}

// readWord finds in what came on the output the word of the script; found is false while it is not there.
// Before it a shell may complain, and a terminal echo; the rest is the command's own.
func (c *Command) readWord(said []byte) (before []byte, word string, rest []byte, found bool) {
	before, after, found := bytes.Cut(said, []byte(c.mark))
	if !found {
		return nil, "", nil, false
	}
	text, rest, found := bytes.Cut(after, []byte(endOfWord))
	return before, string(text), rest, found
}

// readProcess reads a process from the script's word.
func (c *Command) readProcess(word string) (p Process, ok bool) {
	fields := strings.Fields(word)
	if len(fields) <= startField {
		return p, false
	}
	pid, err := strconv.ParseUint(fields[0], 10, 31)
	if err != nil || pid <= 1 { // the first one is the container's own
		return p, false
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	return Process{pid: pid, start: start, tty: c.TTY}, err == nil
}
