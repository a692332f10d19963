// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// maxPodWords bounds what is kept of what a program in the pod says about its failure.
	maxPodWords = 16 << 10
	// notFound is the exit code of a shell for a program that is not there.
	notFound = 127
)

// podCopy copies files to and from a pod without a runner, by programs of its image: tar, or for a
// single file a shell and cat. What they send is chosen by the image and by code that runs in it, and
// is believed in nothing.
type podCopy struct {
	exec      func(context.Context, client.ExecOptions) (int, error)
	container string
	stdout    io.Writer
	notes     Notes
	// copies is how many bytes second names of files may still take up here.
	copies int64
}

var (
	// ErrNoTar means that a directory was to be copied to or from a pod whose image has no tar. Copy names
	// another container of the pod.
	ErrNoTar = errors.New("the image has no tar, which a directory needs: copy its files one by one, use an image with tar, " +
		"or mount the volume in a container that has tar and name that one")
	// ErrNoTools means that a file was to be copied to or from a pod whose image has nothing that could do it. Copy
	// names another container of the pod.
	ErrNoTools = errors.New("the image has neither tar nor a shell with cat, one of which a copy needs: use an image with tar, " +
		"or mount the volume in a container that has it and name that one")

	// errNoProgram means that the image has not got a program that a copy needs.
	errNoProgram = errors.New("the program is not there")
)

// run runs a program in the pod. Its own words about a failure are part of the error.
func (p *podCopy) run(ctx context.Context, command []string, stdin io.Reader, stdout io.Writer) error {
	words := &firstBytes{left: maxPodWords}
	code, err := p.exec(ctx, client.ExecOptions{Command: command, Stdin: stdin, Stdout: stdout, Stderr: words, Container: p.container})
	var call *client.CallError
	switch {
	case errors.As(err, &call) && call.ExitCode == notFound, err == nil && code == notFound:
		return errNoProgram
	case err != nil:
		return err
	case code != 0:
		return &programError{command[0], code, words.String()}
	}
	return nil
}

// programError is the failure of a program in the pod.
type programError struct {
	program string
	code    int
	words   string
}

func (e *programError) Error() string {
	said := ""
	if text := strings.TrimSpace(e.words); text != "" {
		lines := strings.Split(text, "\n")
		said = ": " + termsafe.Line(lines[0])
		if more := len(lines) - 1; more > 0 {
			said += fmt.Sprintf(" (and %s)", moreLines(more))
		}
	}
	return fmt.Sprintf("%s in the sandbox exited with code %d%s", e.program, e.code, said)
}

func moreLines(n int) string {
	if n == 1 {
		return "1 more line"
	}
	return fmt.Sprintf("%d more lines", n)
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	bytes.Buffer
	left int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	f.Buffer.Write(p[:n])
	return len(p), nil
}

// podPath is a path of the pod, cleaned. One that is relative begins with a dot, so that no program
// takes it for an option.
func podPath(name string) string {
	name = path.Clean(name)
	if path.IsAbs(name) || name == "." {
		return name
	}
	return "./" + name
}

// checkPodPath refuses what could not be said to programs, or printed.
func checkPodPath(name string) error {
	if strings.ContainsAny(name, "\x00\n\r") {
		return usage("%q is no path of a file", name)
	}
	return nil
}
