// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

// maxAnswer bounds what is read of a command of our own, in bytes.
const maxAnswer = 16 << 10

// What a shell exits with, and env too, where a command cannot be begun.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// The errors of AwaitEnd.
var (
	// ErrNoShell means that the container has no sh.
	ErrNoShell = errors.New("the container has no shell")
	// ErrLeft means that processes are left: they are another user's, or the kernel cannot end them.
	ErrLeft = errors.New("processes are left that cannot be ended")
	// errNoAnswer means that the API server did not say how the command ended.
	errNoAnswer = errors.New("the API server does not say how it ended")
)

// AwaitEnd reads from the connection over which the command of [Command.End] runs until that has ended. The error
// is nil if no process is left.
func AwaitEnd(conn io.Reader) error {
	var (
		end ending
		buf [512]byte
	)
	for read := 0; !end.whole && read < maxAnswer; {
		n, err := conn.Read(buf[:])
		read += n
		end.add(buf[:n])
		if err != nil && !end.whole {
			return fmt.Errorf("waiting for the end of the processes of a command: %w", err)
		}
	}
	status, ok := readStatus(end.status)
	if !ok {
		return errNoAnswer
	}
	switch code, exited := status.ExitCode(); {
	case !exited && missing[shell].MatchString(status.Message), code == exitNotFound, code == exitCannotRun:
		return ErrNoShell
	case !exited:
		return fmt.Errorf("%w: %.200s", errNoAnswer, status.Message)
	case code != 0:
		return ErrLeft
	}
	return nil
}

// readStatus reads a message on the channel of the status.
func readStatus(text []byte) (status execwire.Status, ok bool) {
	return status, json.Unmarshal(text, &status) == nil
}

// missing finds that a container runtime says of one of our programs that there is none that it could start. There is
// nothing but its words that says it; runc, crun and gVisor have different ones.
var missing = map[string]*regexp.Regexp{program: missingWords(program), shell: missingWords(shell)}

func missingWords(program string) *regexp.Regexp {
	return regexp.MustCompile(`(?is)\b` + program + `\b.*(not found|no such file or directory|permission denied)`)
}

// mayComplain reports whether a command's next output, behind what it has said so far, is or may become that of env about
// the command's program: one line, as coreutils, busybox and toybox write it, in any language.
func (c *Command) mayComplain(f frame, said []byte) bool {
	channel := byte(execwire.ChannelStderr)
	if c.tty {
		channel = execwire.ChannelStdout
	}
	if f.data[0] != channel {
		return false
	}
	text := append(slices.Clone(said), f.data[1:]...)
	line, rest, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		begins := []byte(program + ": ")
		return len(line) <= maxFirst && (bytes.HasPrefix(line, begins) || bytes.HasPrefix(begins, line))
	}
	return len(rest) == 0 && bytes.HasPrefix(line, []byte(program+": ")) && names(string(line), c.arguments[0])
}

// names reports whether a line of env's has this name in it, between the marks that a language has for that.
func names(line, name string) bool {
	for _, marks := range [][2]string{{"'", "'"}, {"‘", "’"}, {"\"", "\""}, {"„", "“"}, {"»", "«"}, {" ", ":"}} {
		if strings.Contains(line, marks[0]+name+marks[1]) {
			return true
		}
	}
	return false
}

// asRuntime returns the message with which a container runtime says that it cannot start the command, in place of
// a status that says that env could not; ok is false of another status. Clients know the runtime's words and give
// them a code (client.Exec, docker), and they have been told nothing of env.
func (c *Command) asRuntime(status *execwire.Status) (text []byte, ok bool) {
	code, _ := status.ExitCode()
	words := "no such file or directory"
	switch {
	case code == exitCannotRun:
		words = "permission denied"
	case code != exitNotFound:
		return nil, false
	case !strings.Contains(c.arguments[0], "/"):
		words = "executable file not found in $PATH"
	}
	text, err := json.Marshal(metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("exec: %q: %s", c.arguments[0], words),
	})
	return text, err == nil
}
