// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ringlog keeps the newest output of the app in a bounded piece of
// memory and hands it to any number of readers.
//
// # Responsibility
//
// One [Ring] holds what the app wrote to both of its streams, in the order in
// which it was read from them. Every byte has an offset: the number of bytes of
// both streams that came before it since the ring was made. Offsets never go
// back and never repeat, so a reader that names one resumes without loss or
// repetition for as long as the ring still holds that byte, and is told how many
// bytes it missed when it does not.
//
// [Open] keeps the log in two files as well, so that it goes on, with its offsets,
// when the runner is started again.
//
// The writer never waits for a reader. A reader owns a position, copies a
// bounded batch from there, and finds a gap when the writer has lapped it.
//
// # Boundary
//
// The package knows nothing of HTTP and nothing of processes. [Ring.Drain] reads
// a pipe until its end, and [Renderer] turns entries into the text of GET /logs.
package ringlog
