// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// A command of more arguments or bytes than these travels in messages: an address has no room for it. A
// shorter one stays in the address, which every runner reads.
const (
	mostArguments = 100
	mostBytes     = 4 << 10
)

// isLong reports whether the command travels in messages, which carry UTF-8 alone.
func (x *execution) isLong() bool {
	bytes := 0
	for _, arg := range x.opts.Command {
		bytes += len(arg)
	}
	return (bytes > mostBytes || len(x.opts.Command) > mostArguments) &&
		!slices.ContainsFunc(x.opts.Command, func(arg string) bool { return !utf8.ValidString(arg) })
}

// sendCommand sends the command in parts, and an empty one.
func (x *execution) sendCommand(ctx context.Context, conn *wsconn.Conn) error {
	start := execwire.Start{Args: x.opts.Command, Dir: x.opts.Dir, Stdin: x.opts.Stdin != nil, TTY: x.opts.TTY}
	if x.opts.TTY {
		start.Columns, start.Rows = x.opts.Size.Width, x.opts.Size.Height
	}
	text, err := json.Marshal(start)
	if err != nil {
		return err
	}
	for len(text) > 0 {
		part := text[:min(len(text), maxExecInput)]
		if err := write(ctx, conn, execwire.ChannelCommand, part); err != nil {
			return err
		}
		text = text[len(part):]
	}
	return write(ctx, conn, execwire.ChannelCommand, nil)
}

// TooLongError means that a command does not fit into the address of a request, in which the exec of a pod without a
// runner takes it.
type TooLongError struct{ Err error }

// Error implements error.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the command is too long for a pod without a runner, where it travels in the address of a request: "+
		"copy it into a file of the pod (sandbar cp) and run that (%v)", e.Err)
}

// Unwrap returns the cause.
func (e *TooLongError) Unwrap() error { return e.Err }

// orTooLong explains an answer to a long command in an address.
func (x *execution) orTooLong(res *http.Response, err error) error {
	switch res.StatusCode {
	case http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		if x.pod && x.isLong() {
			return &TooLongError{err}
		}
	}
	return err
}
