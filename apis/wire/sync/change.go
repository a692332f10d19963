// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

// Change is a line of GET /changes.
type Change struct {
	// Revision of the workspace, read before the entry was looked at: whoever has applied a
	// later batch since knows that the entry may be older than that.
	Revision int64 `json:"revision"`
	// Resync says why changes were lost: the workspace has to be listed.
	Resync string `json:"resync,omitempty"`
	// Entry is what lies at a path now, of type none for nothing, which for a directory means
	// all below it too. It is nil in the first line, and in one with Resync.
	*Entry
}
