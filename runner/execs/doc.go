// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package execs runs commands beside the app, with a client attached, and lets a
// client that lost its connection come back.
//
// # Responsibility
//
// A [Manager] starts commands and keeps a [Session] for each: its process, its
// input, and its newest output in a bounded ring with offsets. One client at a time
// is attached; one that attaches later takes its place, because a server notices
// last of all that a connection is dead. Commands are listed, and who is not attached can
// signal one, stop it and wait for its end.
//
// While a client is attached nothing is dropped: the command waits when the client
// is slow, as it would for a pipe. While none is, the command goes on, the ring
// keeps the newest output, and a client that comes back later finds a gap. A command
// without a client is ended after [Options.Detached]; one that has ended is
// remembered for [Options.Retained].
//
// A command has its own session of processes. What it leaves in the background there
// is killed when it ends, because it would hold its output open forever; a program
// that starts a session of its own outlives it, and ends with the app's next stop.
//
// # Boundary
//
// The package knows nothing of HTTP, WebSockets and frames.
package execs
