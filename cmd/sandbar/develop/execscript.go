// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// codeNotFound is what a shell and env(1) exit with for a program that is not there (POSIX, 2.8.2).
	codeNotFound = 127
	// maxFirstLine is how much of a script's first line Linux reads (BINPRM_BUF_SIZE), and headTime how long it is
	// waited for.
	maxFirstLine = 256
	headTime     = 5 * time.Second
)

// explainScript says what a pod without a runner does not: that a script is there whose first line ends with a carriage
// return, so that the kernel looks for an interpreter of another name. failed is how the command ended, or why it was
// not started.
func explainScript(ctx context.Context, i *client.Instance, opts client.ExecOptions, failed error, notes io.Writer) {
	var (
		exit *cli.ExitError
		call *client.CallError
	)
	notFound := errors.As(failed, &exit) && exit.Code == codeNotFound || errors.As(failed, &call) && call.ExitCode == codeNotFound
	if !notFound || !strings.Contains(opts.Command[0], "/") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	var first bytes.Buffer
	code, err := i.Exec(ctx, client.ExecOptions{
		Command: []string{"head", "-c", strconv.Itoa(maxFirstLine), opts.Command[0]}, Dir: opts.Dir, Container: opts.Container,
		Stdout: &first, Stderr: io.Discard,
	})
	line, _, _ := strings.Cut(first.String(), "\n")
	if err == nil && code == 0 && strings.HasPrefix(line, "#!") && strings.HasSuffix(line, "\r") {
		fmt.Fprintf(notes, "sandbar: %s begins with #! and ends its first line with a carriage return (CRLF): save it with LF line ends\n", termsafe.Line(opts.Command[0]))
	}
}
