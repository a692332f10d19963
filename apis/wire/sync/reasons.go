// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

// Reasons of a [Conflict] that clients give too where no runner does, so that a copy is refused in the same words
// everywhere.
const (
	ReasonDirectoryThere = "a directory is there; delete it first, or in the same batch, to replace it"
	ReasonFileThere      = "a file or a symlink is there; delete it first, or in the same batch, to replace it by a directory"
	ReasonOnTheWay       = "a directory of the path is a symlink or a file; delete it first, or in the same batch, to replace it"
)
