// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

// The results of looking after a process whose caller has gone.
const (
	// Gone means that it had ended by itself, or that its number is another's.
	Gone = "gone"
	// Kept means that it ignores SIGHUP, as nohup has it, and goes on.
	Kept = "kept"
	// Ended means that its session ended upon the first signal, and Killed that something of it had to be killed.
	Ended  = "ended"
	Killed = "killed"
	// Failed means that the pod could not be asked, or did not answer.
	Failed = "failed"
)

// Outcomes are all of them.
var Outcomes = []string{Gone, Kept, Ended, Killed, Failed}

// maxAnswer bounds what is read of the script of the end, in bytes.
const maxAnswer = 4 << 10

// errNoAnswer means that the script of the end did not say what it found.
var errNoAnswer = errors.New("the shell of the container does not say what it ended")

// Run runs a command in the container of a process, with its stdout alone, and returns the connection over
// which the API server tells of it.
type Run func(ctx context.Context, command []string) (io.ReadCloser, error)

// End ends the session of a process: with HUP if it has a terminal, else with TERM, and two seconds later
// with KILL. What has left the session or ignores SIGHUP stays. It returns one of Outcomes.
func End(ctx context.Context, p Process, run Run) (outcome string, err error) {
	conn, err := run(ctx, p.ended())
	if err != nil {
		return Failed, fmt.Errorf("ending a command: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	said, err := readOutput(conn)
	if err != nil {
		return Failed, fmt.Errorf("ending a command: %w", err)
	}
	switch said = strings.TrimSpace(said); said {
	case Gone, Kept, Ended, Killed:
		return said, nil
	}
	return Failed, errNoAnswer
}

// readOutput reads what a command prints until the API server says that it has ended well.
func readOutput(conn io.Reader) (said string, err error) {
	var (
		raw []byte
		buf [512]byte
	)
	for len(raw)+len(said) <= maxAnswer {
		f, rest, ok := nextFrame(raw)
		if !ok {
			n, err := conn.Read(buf[:])
			if raw = append(raw, buf[:n]...); n == 0 && err != nil {
				return "", err //nolint:wrapcheck // End wraps it
			}
			continue
		}
		raw = rest
		if f.isControl() || len(f.data) == 0 {
			continue
		}
		switch f.data[0] {
		case execwire.ChannelStdout:
			said += string(f.data[1:])
		case execwire.ChannelStatus:
			if status, ok := readStatus(f.data); !ok || status.Status != metav1.StatusSuccess {
				return "", errNoAnswer
			}
			return said, nil
		}
	}
	return "", errNoAnswer
}

// readStatus reads the message with which the API server ends a command.
func readStatus(message []byte) (status metav1.Status, ok bool) {
	err := json.Unmarshal(message[1:], &status)
	return status, err == nil
}

// hasNoShell reports whether a command that began without the script's word ended so because the container
// has no shell that can run the script, and not for another reason.
func hasNoShell(message []byte) bool {
	status, ok := readStatus(message)
	switch {
	case !ok:
		return false
	case status.Status == metav1.StatusSuccess, status.Reason == "NonZeroExitCode":
		return true
	}
	for _, words := range []string{"executable file not found", "no such file or directory", "permission denied"} {
		if strings.Contains(status.Message, "exec") && strings.Contains(status.Message, words) {
			return true
		}
	}
	return false
}
