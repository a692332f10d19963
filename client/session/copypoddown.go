// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

const (
	// maxPodEntries bounds the entries of an archive: as many as are taken of a workspace.
	maxPodEntries = 1_000_000
	// maxPodRest bounds what follows the end of an archive: tar fills up a block of 10 KiB, or what it
	// was told.
	maxPodRest = 1 << 20
	// maxPodCopies bounds what second names take up here together, in bytes.
	maxPodCopies = 1 << 30
)

// download copies a file or a directory of the pod.
func (p *podCopy) download(ctx context.Context, source, destination string) error {
	if err := checkPodPath(source); err != nil {
		return err
	}
	at := podPath(source)
	if path.Base(at) == ".." {
		return usage("%q has no name of its own: name the directory", source)
	}
	d := podDown{podCopy: p, at: at, destination: destination, progress: newProgress(p.notes, source, -1)}
	err := d.byTar(ctx)
	if errors.Is(err, errNoProgram) {
		err = d.byCat(ctx)
	}
	d.progress.end()
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	if d.tree == nil {
		return nil
	}
	return leftOut(d.tree.left)
}

// podDown is a copy from a pod. The archive is as hostile as code in the pod can make it:
//   - a name that does not lie below what was asked for, or that devsync.CheckName refuses (steps up,
//     control characters, a .git), is left out;
//   - all is written below an os.Root, and through no symlink, also not one of the archive itself;
//   - symlinks lead nowhere but below the directory; hard links become copies of files that this very
//     copy has written, so that no file of the person gets a second name. A link costs the pod 512 bytes,
//     and a disk here the whole file: what all of them take has a bound;
//   - devices, FIFOs and sparse files, which cost the pod nothing and fill a disk here, are left out;
//   - of modes only the executable bit counts, of owners and times nothing.
type podDown struct {
	*podCopy
	at, destination string
	progress        *copyProgress
	got             int64

	// tree is where it is written; nil until the archive says that it is a directory.
	tree *treeDown
	// in has the archive while it is read, written the files that came of it.
	in      *tar.Reader
	written map[string]bool
}

// byTar has the pod send an archive, and unpacks it.
func (d *podDown) byTar(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, base := d.at, "."
	if d.at != "/" && d.at != "." {
		dir, base = path.Dir(d.at), "./"+path.Base(d.at)
	}
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := d.run(ctx, []string{"tar", "-cf", "-", "-C", dir, base}, nil, writer)
		_ = writer.CloseWithError(err) // an archive is whole when tar says so, and not at its end
		ended <- err
	}()
	err := d.unpack(ctx, reader, path.Clean(base))
	_ = reader.CloseWithError(errTaken) // unblocks tar, if the archive is not wanted any more
	cause := <-ended
	var failed *programError
	switch {
	case errors.Is(cause, errNoProgram):
		return errNoProgram
	case errors.As(cause, &failed) && (err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, cause)):
		if d.tree == nil && d.got == 0 {
			return cause
		}
		return fmt.Errorf("not everything may be copied: %w", cause)
	case err != nil:
		return err
	}
	return cause
}

// unpack reads an archive of what is called base.
func (d *podDown) unpack(ctx context.Context, from io.Reader, base string) error {
	d.in, d.written = tar.NewReader(from), map[string]bool{}
	defer func() {
		if d.tree != nil {
			_ = d.tree.root.Close()
		}
	}()
	for n := 0; ; n++ {
		header, err := d.in.Next()
		if errors.Is(err, io.EOF) {
			if err := drain(from); err != nil || n > 0 {
				return err
			}
			return errors.New("the tar of the sandbox sent nothing")
		}
		if err != nil {
			return err
		}
		if n >= maxPodEntries {
			return fmt.Errorf("the archive has more than %d entries", maxPodEntries)
		}
		name, inside := below(header.Name, base)
		switch {
		case n == 0 && (!inside || name != ""):
			return errors.New("the tar of the sandbox sends something else than was asked for")
		case n == 0:
			err = d.first(ctx, header)
		case d.tree == nil:
			return errors.New("the archive has more than the file that was asked for")
		case !inside:
			d.tree.leaveOut(header.Name, "it does not lie below what was asked for")
		case name != "":
			err = d.entry(ctx, header, name, base)
		}
		if err != nil {
			return err
		}
	}
}

// drain reads what tar writes behind the end of an archive, and then whether it succeeded.
func drain(from io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(from, maxPodRest))
	if err == nil && n == maxPodRest {
		err = errors.New("the sandbox sends more behind the end of the archive")
	}
	return err
}

// below is the name of an entry below base; empty for base itself.
func below(name, base string) (string, bool) {
	name = path.Clean(name)
	if name == base {
		return "", true
	}
	if base == "." {
		return name, !path.IsAbs(name)
	}
	return strings.CutPrefix(name, base+"/")
}

// first takes the entry that was asked for: a file, or the directory that the others lie in.
func (d *podDown) first(ctx context.Context, header *tar.Header) error {
	place := d.destination
	if name := path.Base(d.at); name != "/" && name != "." && d.destination != "-" {
		place = placeFor(name, d.destination)
	}
	switch {
	case header.Typeflag == tar.TypeDir && d.destination == "-":
		return errors.New("it is a directory, which stdout cannot have")
	case header.Typeflag == tar.TypeDir:
		root, err := openTree(place)
		if err != nil {
			return err
		}
		d.tree = &treeDown{root: root, notes: d.notes}
		return nil
	case header.Typeflag == tar.TypeSymlink:
		return fmt.Errorf("it is a symlink to %q: copy that one", header.Linkname)
	case header.Typeflag != tar.TypeReg || isSparse(header):
		return errors.New("it is neither a file nor a directory that can be copied")
	case d.destination == "-":
		return d.content(d.stdout, header.Size)
	}
	return d.single(ctx, place, header.FileInfo().Mode(), func(out io.Writer) error { return d.content(out, header.Size) })
}

// single writes a file beside its place, and renames it. It writes into a device or a FIFO.
func (d *podDown) single(ctx context.Context, place string, mode fs.FileMode, content func(io.Writer) error) error {
	if isDevice(place) {
		return writeThrough(place, content)
	}
	root, err := os.OpenRoot(filepath.Dir(place))
	if err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	defer func() { _ = root.Close() }()
	tree := treeDown{root: root, notes: d.notes, receive: receiver(root, content)}
	return tree.file(ctx, syncwire.Entry{Executable: mode&0o111 != 0}, filepath.Base(place))
}

// receiver makes a file of what content writes.
func receiver(root *os.Root, content func(io.Writer) error) func(context.Context, syncwire.Entry, string, fs.FileMode) (string, error) {
	return func(_ context.Context, _ syncwire.Entry, dir string, mode fs.FileMode) (string, error) {
		temp := path.Join(dir, ".sandbar-cp-"+rand.Text())
		f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		err = content(f)
		if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
			_ = root.Remove(temp)
		}
		return temp, err
	}
}

// content copies the content of the entry that is read.
func (d *podDown) content(out io.Writer, size int64) error {
	_, err := io.CopyN(io.MultiWriter(out, writerFunc(d.count)), d.in, size)
	return err
}

func (d *podDown) count(n int) {
	d.got += int64(n)
	d.progress.at(d.got)
}

// isSparse reports whether an entry says that it is longer than what it has.
func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// entry makes one entry below the directory.
func (d *podDown) entry(ctx context.Context, header *tar.Header, name, base string) error {
	entry := syncwire.Entry{Path: name, Type: syncwire.Other, Executable: header.Mode&0o111 != 0}
	d.tree.receive = receiver(d.tree.root, func(out io.Writer) error { return d.content(out, header.Size) })
	switch {
	case isSparse(header):
		d.tree.leaveOut(name, ReasonSparse)
		return nil
	case header.Typeflag == tar.TypeReg:
		entry.Type = syncwire.File
	case header.Typeflag == tar.TypeDir:
		entry.Type = syncwire.Dir
	case header.Typeflag == tar.TypeSymlink:
		entry.Type, entry.Target = syncwire.Symlink, header.Linkname
	case header.Typeflag == tar.TypeLink:
		first, inside := below(header.Linkname, base)
		if !inside || !d.written[first] {
			d.tree.leaveOut(name, "it is a second name of a file that was not copied")
			return nil
		}
		if !d.affords(first) {
			d.tree.leaveOut(name, ReasonSecondName)
			return nil
		}
		entry.Type = syncwire.File
		d.tree.receive = receiver(d.tree.root, func(out io.Writer) error { return d.again(out, first) })
	}
	left := d.tree.left
	if err := d.tree.copy(ctx, entry, name); err != nil {
		return fmt.Errorf("%s: %w", strconv.Quote(name), err)
	}
	// What takes the place of a file under its name is not that file any more.
	d.written[name] = entry.Type == syncwire.File && d.tree.left == left
	return nil
}

// affords counts a second name of a file against what all of them may take, and reports whether it may be copied.
func (d *podDown) affords(first string) bool {
	info, err := d.tree.root.Lstat(first)
	if err != nil || info.Size() > d.copies {
		return false
	}
	d.copies -= info.Size()
	return true
}

// again copies a file that was written before.
func (d *podDown) again(out io.Writer, name string) error {
	info, err := d.tree.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return devsync.ErrChanged
	}
	f, err := d.tree.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, io.LimitReader(f, info.Size()))
	return err
}

// byCat copies one file, and counts it if the image has wc.
func (d *podDown) byCat(ctx context.Context) error {
	if d.at == "." || d.at == "/" {
		return ErrNoTar
	}
	size := int64(-1)
	var count bytes.Buffer
	if err := d.run(ctx, []string{"wc", "-c", d.at}, nil, &limited{&count, 1 << 10}); err == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(count.String()), " ")
		if n, err := strconv.ParseInt(first, 10, 64); err == nil {
			size = n
		}
	}
	cat := func(out io.Writer) error {
		d.got = 0
		err := d.run(ctx, []string{"cat", d.at}, nil, io.MultiWriter(out, writerFunc(d.count)))
		if err == nil && size >= 0 && d.got != size {
			return fmt.Errorf("%d of %d bytes came: %w", d.got, size, devsync.ErrChanged)
		}
		return err
	}
	var err error
	if d.destination == "-" {
		err = cat(d.stdout)
	} else {
		mode := fs.FileMode(0)
		if d.run(ctx, []string{"sh", "-c", `test -x "$0"`, d.at}, nil, io.Discard) == nil { // without a shell it is not known
			mode = 0o100
		}
		err = d.single(ctx, placeFor(path.Base(d.at), d.destination), mode, cat)
	}
	if errors.Is(err, errNoProgram) {
		return ErrNoTools
	}
	return err
}

// limited fails when it is written more than expected.
type limited struct {
	out  io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.out.Write(p)
}
