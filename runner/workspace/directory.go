// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// directory is an open directory. Its methods take one name, never a path, and
// follow no symlink: this is where confinement is kept, and nothing else in the
// package calls the file system.
type directory struct{ file *os.File }

// openTop opens the workspace itself. Its path comes from the operator and is
// the only one that may contain slashes and symlinks.
func openTop(path string) (directory, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return directory{f}, err
}

func (d directory) fd() int { return int(d.file.Fd()) }

func (d directory) close() { _ = d.file.Close() }

// openDir opens the directory called name. O_NOFOLLOW with O_DIRECTORY refuses a
// symlink with ENOTDIR; O_DIRECTORY keeps a FIFO from blocking the open.
func (d directory) openDir(name string) (directory, error) {
	fd, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return directory{}, err
	}
	return directory{os.NewFile(uintptr(fd), name)}, nil
}

// openOrMakeDir is openDir, making the directory if nothing is there. made tells
// whether it did.
func (d directory) openOrMakeDir(name string, mode uint32) (sub directory, made bool, err error) {
	sub, err = d.openDir(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, false, err
	}
	switch err = unix.Mkdirat(d.fd(), name, mode); {
	case err == nil:
		made = true
	case !errors.Is(err, fs.ErrExist):
		return directory{}, false, err
	}
	if sub, err = d.openDir(name); err == nil && made {
		// Exact, whatever the umask.
		if err = unix.Fchmod(sub.fd(), mode); err != nil {
			sub.close()
		}
	}
	return sub, made, err
}

// openRead opens a file for comparing. O_NONBLOCK keeps a FIFO from blocking the
// open; what is not a regular file comes back as fs.ErrInvalid.
func (d directory) openRead(name string) (*os.File, fs.FileInfo, error) {
	fd, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// create makes a file that did not exist. Its mode is exactly fileMode, whatever the umask.
func (d directory) create(name string, content []byte) error {
	fd, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(content)
	return errors.Join(err, unix.Fchmod(fd, fileMode), f.Close())
}

func (d directory) open(name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// lstat returns the type bits of what is called name.
func (d directory) lstat(name string) (uint32, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Mode & unix.S_IFMT, err
}

// rename moves name into another directory, replacing what newName was. Neither
// name is followed when it is a symlink.
func (d directory) rename(name string, to directory, newName string) error {
	return unix.Renameat(d.fd(), name, to.fd(), newName)
}

// link gives name a second name. Without AT_SYMLINK_FOLLOW a symlink is linked
// itself.
func (d directory) link(name string, to directory, newName string) error {
	return unix.Linkat(d.fd(), name, to.fd(), newName, 0)
}

func (d directory) removeFile(name string) error { return unix.Unlinkat(d.fd(), name, 0) }

func (d directory) removeDir(name string) error {
	return unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR)
}

const (
	// removeDepth is how deep removeTree descends; each level holds a file open.
	removeDepth = 64
	// removeChunk is how many names are read at once.
	removeChunk = 512
)

// removeTree deletes name and all below it. An app can nest directories without
// end, and each level that is open costs a descriptor, so a directory that lies
// too deep is moved up here first and deleted from here.
func (d directory) removeTree(name string) error {
	lifted := 0
	lift := func(parent directory, deep string) (string, error) {
		lifted++
		up := fmt.Sprintf("%s.%d", name, lifted)
		return up, parent.rename(deep, d, up)
	}
	pending := []string{name}
	for len(pending) > 0 {
		next := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		err := d.removeBelow(next, removeDepth, func(parent directory, deep string) error {
			up, err := lift(parent, deep)
			pending = append(pending, up)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d directory) removeBelow(name string, depth int, lift func(directory, string) error) error {
	// EISDIR is what Linux says; EPERM is what POSIX says.
	err := d.removeFile(name)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth == 0 {
		return lift(d, name)
	}
	sub, err := d.openDir(name)
	if err != nil {
		return err
	}
	defer sub.close()
	for {
		names, err := sub.file.Readdirnames(removeChunk)
		if errors.Is(err, io.EOF) {
			return d.removeDir(name)
		}
		if err != nil {
			return err
		}
		for _, child := range names {
			if err := sub.removeBelow(child, depth-1, lift); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}
