// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// Action is what a key does to the chosen sandbox.
type Action int

// The actions. Extend moves the shutdown time by [Extension]; Renew counts the sandbox as used, and moves nothing.
const (
	Suspend Action = iota
	Resume
	Restart
	Renew
	Extend
	Open
	Delete
)

// doing are the actions while they run, as messages name them.
var doing = map[Action]string{
	Suspend: "suspending", Resume: "resuming", Restart: "restarting", Renew: "renewing", Extend: "extending",
	Open: "opening", Delete: "deleting",
}

// LogLines is how many lines a log begins with.
const LogLines = 200

// Actions does what keys ask for. Its methods are called by goroutines of the view, and end with the context. Errors
// are what a person reads: what is wrong and what to do, in a sentence or two.
type Actions interface {
	// Do carries an action out, and returns what a person is told of it. It does not wait for the state that follows:
	// the list shows that.
	Do(ctx context.Context, action Action, row Row) (string, error)
	// Describe returns what is known of a sandbox.
	Describe(ctx context.Context, row Row) (string, error)
	// Logs reads the log of a sandbox, from [LogLines] before its end on, until the context ends. It calls
	// send with each piece; a note is about the log, and not of it. send keeps no text after it has returned.
	Logs(ctx context.Context, row Row, send func(text []byte, note bool)) error
	// Shell returns a program that gives this terminal a shell in the sandbox. Its error is why there was none. It ends
	// with the context.
	Shell(ctx context.Context, row Row) tea.ExecCommand
}
