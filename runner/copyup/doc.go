// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package copyup copies a directory of a container's image into a volume, so that a development session begins with the
// files that the image has.
//
// # Responsibility
//
// [Run] is what `sandbar-runner copy-up SOURCE TARGET` does in an init container of the app's image: it counts what SOURCE
// has, refuses what the volume at TARGET has not the room for, copies, and marks the volume. docs/runner.md describes it for
// people, and apis/wire/copy is how it reports its end.
//
// # All or nothing
//
//	.sandbar/copy-up        where the files are copied to
//	.sandbar/state/copied   the marker: the copy is complete, and on disk
//	.sandbar-workspace      the workspace, whose place the copy takes by one rename
//
// The marker is written when all files are on disk, and the rename comes after it. So a copy that dies leaves either a
// .sandbar/copy-up without a marker, which the next one removes and begins again, or one with a marker, which the next one
// moves into place. A workspace with files and without a marker was brought by somebody else, and is refused. The runner
// keeps .sandbar/state, and its listings, its syncs and git do not see it: it lies beside the workspace (ADR 40).
//
// # Confinement
//
// Another container of the pod can have the same volume, and change it at any moment. So each directory is opened from the
// one above it, by one name, with O_NOFOLLOW, and stays open while something is written to it; a file is created with O_EXCL
// (ADR 4; folder.go). A symlink in the place of a directory or a file is an error, and nothing is written through it.
//
// # Memory
//
// The tree is walked and never held: what is open is one chain of directories and a queue of [queueLength] files. What is
// remembered is the inode of each file with several names, of which [Limits] has the number. The figures are in
// docs/runner.md.
package copyup
