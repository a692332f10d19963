// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// Copy copies files and directories between this machine and an instance, over what is there. Executable bits and
// symlinks that stay inside are copied; what would lead away is left out. Nothing is deleted.
//
// Of an instance with the verb files, paths are relative to the sandbox's files. A pod without a runner has its
// image's tar, or for single files sh and cat, do it; a path there may be absolute, or is relative to the
// container's working directory.
//
// Its methods send the notes [LeftOut], [CopyContinued], [CopyProgress], [CopyEnded] and [CopyInterrupted]. A copy
// that left something out fails with a [LeftOutError] after it has copied the rest. A path that cannot be one is a
// [UsageError]; other errors are those of files of this machine, and of package client.
type Copy struct {
	Instance *client.Instance
	// Container is that of a pod without a runner; its first if empty.
	Container string
	// Stdout gets a file that is downloaded to "-".
	Stdout io.Writer
	Notes  Notes
}

// LeftOut is the [Note] that a copy goes on without a file or directory. Path may come from inside the sandbox.
type LeftOut struct{ Path, Reason string }

func (LeftOut) isNote() {}

// ReasonSparse is the Reason of a [LeftOut] file that has holes, which would cost the sandbox nothing and fill a
// disk here.
const ReasonSparse = "it is a sparse file"

// ReasonSecondName is the Reason of a [LeftOut] hard link: each becomes a file of its own here, and those before it
// have taken 1 GiB.
const ReasonSecondName = "it is one of several names of a file, and copies of such files take 1 GiB at most"

// LeftOutError ends a copy that is not whole; each entry was named by a [LeftOut].
type LeftOutError struct {
	// Count is the number of entries that were left out, without those below them.
	Count int
}

// Error implements error.
func (e *LeftOutError) Error() string {
	if e.Count == 1 {
		return "not everything was copied: 1 entry was left out"
	}
	return fmt.Sprintf("not everything was copied: %d entries were left out", e.Count)
}

// leftOut is the error of a copy that left so many entries out.
func leftOut(n int) error {
	if n == 0 {
		return nil
	}
	return &LeftOutError{n}
}

// Upload copies a file or directory of this machine to a path of the sandbox. A destination that is empty or ends in
// "/" gets an entry of the source's name.
func (c Copy) Upload(ctx context.Context, source, destination string) error {
	if c.isPod() {
		return c.pod().upload(ctx, source, destination)
	}
	if err := checkInside(destination); err != nil {
		return err
	}
	return upload(ctx, c.Instance.Workspace(), source, destination, c.Notes)
}

// Download copies a file or directory of the sandbox to a path of this machine. A destination that ends in "/" or
// is a directory gets an entry of the source's name; "-" is Stdout, for a single file. An empty source is all of
// the sandbox's files. A file is written beside its destination and renamed, so that a connection that breaks
// leaves what was there; of a large one the next call goes on where this one ended. Into a device or a FIFO it is
// written as it comes.
func (c Copy) Download(ctx context.Context, source, destination string) error {
	if destination == "/dev/stdout" {
		destination = "-"
	}
	if c.isPod() {
		return c.pod().download(ctx, source, destination)
	}
	if err := checkInside(source); err != nil {
		return err
	}
	return download(ctx, c.Instance.Workspace(), source, destination, c.Stdout, c.Notes)
}

// isPod reports whether an instance without a runner has its pod's exec alone.
func (c Copy) isPod() bool { return c.Instance.Has("exec") && !c.Instance.Has("files") }

func (c Copy) pod() *podCopy {
	return &podCopy{exec: c.Instance.Exec, container: c.Container, stdout: c.Stdout, notes: c.Notes, copies: maxPodCopies}
}

func checkInside(theirs string) error {
	if strings.HasPrefix(theirs, "/") {
		return usage("%q is absolute: a PATH is relative to the sandbox's files, so that the file which programs there call /workspace/a/b is a/b", theirs)
	}
	if clean := path.Clean(theirs); clean == ".." || strings.HasPrefix(clean, "../") {
		return usage("%q leads out of the sandbox's files: a PATH is relative to them", theirs)
	}
	return nil
}

// placeFor is where something of the sandbox with a name goes.
func placeFor(name, destination string) string {
	info, err := os.Stat(destination)
	if strings.HasSuffix(destination, "/") || err == nil && info.IsDir() {
		return filepath.Join(destination, name)
	}
	return destination
}

// download writes beside the destination and renames, so that a connection that breaks leaves
// what was there.
func download(ctx context.Context, remote devsync.Remote, source, destination string, stdout io.Writer, notes Notes) error {
	source = strings.TrimRight(source, "/") // as a shell completes a directory
	name := path.Base(path.Clean("/" + source))
	if strings.ContainsRune(name, filepath.Separator) && name != "/" {
		return usage("%q is no path of a file", source)
	}
	if name == "/" {
		return downloadTree(ctx, remote, "", destination, notes)
	}
	// The beginning of the answer says what the file is.
	head, err := remote.Read(ctx, source, 0, "")
	if isOnTheWay(err) {
		behind, failed := follow(ctx, remote, path.Clean(source))
		if failed != nil {
			return fmt.Errorf("copying %s: %w", source, failed)
		}
		source = behind
		head, err = remote.Read(ctx, source, 0, "")
	}
	var refused *devsync.RemoteError
	if errors.As(err, &refused) && refused.Kind == devsync.Stale && destination != "-" && isDirectory(ctx, remote, source) {
		return downloadTree(ctx, remote, source, placeFor(name, destination), notes)
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	_ = head.Close()
	file := devsync.Download{Remote: remote, Path: source, Size: head.Size}
	executable := head.Executable
	if syncwire.ValidDigest(head.Tag) {
		file.Digest = head.Tag
	}
	if err := downloadFile(ctx, &file, executable, placeFor(name, destination), destination == "-", stdout, notes); err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	return nil
}

func downloadFile(ctx context.Context, file *devsync.Download, executable bool, destination string, toStdout bool, stdout io.Writer, notes Notes) error {
	if file.Size < 0 {
		return errors.New("the sandbox does not say how large the file is")
	}
	progress := newProgress(notes, file.Path, file.Size)
	defer progress.end()
	file.OnProgress = progress.at
	if toStdout {
		return file.To(ctx, stdout)
	}
	if isDevice(destination) {
		return writeThrough(destination, func(out io.Writer) error { return file.To(ctx, out) })
	}
	root, err := os.OpenRoot(filepath.Dir(destination))
	if err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	defer func() { _ = root.Close() }()
	tree := treeDown{root: root, notes: notes, receive: func(ctx context.Context, _ syncwire.Entry, dir string, mode fs.FileMode) (string, error) {
		temp, err := file.Into(ctx, root, dir, mode)
		progress.continued(file.Resumed, false)
		return temp, err
	}}
	return tree.file(ctx, syncwire.Entry{Executable: executable}, filepath.Base(destination))
}

// isDirectory reports whether a path of the sandbox is a directory.
func isDirectory(ctx context.Context, remote devsync.Remote, source string) bool {
	source = strings.Trim(path.Clean("/"+source), "/")
	listing, err := remote.List(ctx, nil, "")
	return err == nil && slices.ContainsFunc(listing.Entries, func(e syncwire.Entry) bool {
		return e.Path == source && e.Type == syncwire.Dir
	})
}
