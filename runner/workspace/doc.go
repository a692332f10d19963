// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package workspace changes the files of a sandbox in batches, and changes
// nothing outside of it.
//
// # Responsibility
//
// A [Batch] collects files to write and paths to delete. Each file is staged on
// the workspace's own file system first; [Batch.Commit] checks the whole batch
// against the tree, and only then renames. A reader of a file therefore sees the
// old content or the new, never a half. When a step fails in the middle, the
// steps before it are undone in reverse order; should that fail too, the error
// says so and names the paths that remain changed ([CodePartiallyApplied]). A
// runner that dies at any moment leaves the tree as before the batch, or one that
// the next runner brings to its end before anything else: journal.go says how.
//
// Content that arrives over several requests waits in the staging directory by its digest
// (uploads.go) until a batch takes it.
//
// # Confinement
//
// Whoever syncs chooses every path, and the app may change the tree at any time,
// so neither is believed:
//
//   - A path is checked as text first ([CheckPath]).
//   - It is then walked one name at a time from an open directory, with
//     openat(O_DIRECTORY|O_NOFOLLOW). The kernel resolves nothing but that one
//     name: no symlink is followed, whether it leads out of the workspace or not,
//     and swapping a directory for a symlink between two steps changes nothing,
//     because the directory that was opened is the directory that is written to.
//   - A file is created with O_CREAT|O_EXCL in the staging directory and renamed
//     into place, so that what stood there (a symlink, a hard link, a FIFO, a
//     device) is replaced and never written through.
//
// os.Root alone does not give this: it follows symlinks that stay inside, cannot
// rename between two directories that are held open, and OpenRoot waits forever
// on a FIFO that stands where a directory is expected.
//
// # Boundary
//
// The package knows nothing of HTTP, of JSON, or of processes. The staging
// directory ([StagingName]) at the top of the workspace, or of the volume that the
// workspace is a directory of (volume.go), is its own; no path may name it.
package workspace
