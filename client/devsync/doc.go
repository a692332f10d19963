// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

// Package devsync keeps a directory of this machine and the workspace of a sandbox alike.
//
// # Responsibility
//
// An [Engine] compares three trees: the directory, the workspace, and what both agreed on last
// (the base, kept in a file). What changed on one side only is carried over; what changed on
// both is a [Conflict], listed and never overwritten until somebody prefers a side. By default
// files travel to the sandbox only; with [Options.TwoWay] also back.
//
// One file is one question: scan.go what lies in the directory, ignore.go what of it does not
// count, above.go which rules lie outside of it, tracked.go what git has although they name it,
// watch.go what changed in it, root.go whether it still is the directory that was compared,
// base.go what was agreed on, merge.go what follows from that, push.go and delta.go how it travels
// to the sandbox, pull.go how back, upload.go and download.go how what no request carries travels
// and goes on, engine.go in what order and what happens when something fails, follow.go what wakes
// a Watch, reread.go what of the directory is read again, event.go what a person sees of it,
// path.go which names of the sandbox are let into the directory, mode.go with which rights,
// secrets.go what does not leave it, broad.go which directories are refused.
//
// # Invariants
//
//   - Nothing is written over that the engine has not seen: each change names what it replaces,
//     and the side that applies it compares.
//   - A tree that is empty where it was not is no order to empty the other one.
//   - Names that come from the sandbox are hostile: none leads out of the directory, none into a
//     repository's own directory.
//   - What may be a secret is not sent, and a directory of more than one project is not opened,
//     unless the options name it.
//   - What is read, compared and written is one directory: nothing is deleted because another one took its
//     place.
//   - What cannot be read has not been deleted, and stops nothing else.
//   - The base is what was agreed on or older, never newer: losing it, or a part of it, makes
//     conflicts and never a loss.
//
// As for git, directories exist by their files: an empty one is not synced.
//
// # Boundary
//
// The package knows of the sandbox what [Remote] says, and nothing of Kubernetes, credentials or
// terminals.
package devsync
