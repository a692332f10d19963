// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/rand"
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
type directory struct {
	file *os.File
	// before is called ahead of every step that changes the disk, and nil outside of
	// the tests that crash there.
	before func(step string)
}

// step tells that the disk is about to change.
func (d directory) step(name string) {
	if d.before != nil {
		d.before(name)
	}
}

// openTop opens the workspace itself. Its path comes from the operator and is
// the only one that may contain slashes and symlinks.
func openTop(path string) (directory, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return directory{file: f}, err
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
	return directory{os.NewFile(uintptr(fd), name), d.before}, nil
}

// openOrMakeDir is openDir, making the directory if nothing is there. made tells
// whether it did.
func (d directory) openOrMakeDir(name string, mode uint32) (sub directory, made bool, err error) {
	sub, err = d.openDir(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, false, err
	}
	d.step("mkdir")
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

// openRead opens a file for comparing.
func (d directory) openRead(name string) (*os.File, error) {
	return d.openRegular(name, unix.O_RDONLY)
}

// openWrite opens a file for reading and writing.
func (d directory) openWrite(name string) (*os.File, error) {
	return d.openRegular(name, unix.O_RDWR)
}

// openRegular opens a file. O_NONBLOCK keeps a FIFO from blocking the open; what is not a regular
// file comes back as fs.ErrInvalid.
func (d directory) openRegular(name string, access int) (*os.File, error) {
	fd, err := d.open(name, access|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// names returns the names in the directory, from the beginning each time.
func (d directory) names() ([]string, error) {
	again, err := d.openDir(".")
	if err != nil {
		return nil, err
	}
	defer again.close()
	return again.file.Readdirnames(-1)
}

// free is how many bytes a program that is not root can still write to the volume.
func (d directory) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd(), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// create makes a file that did not exist. Its mode is exactly fileMode, whatever the umask.
func (d directory) create(name string) (*os.File, error) {
	d.step("create")
	fd, err := d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Fchmod(fd, fileMode); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// save makes a file with content that outlasts a loss of power once the directory
// is synced.
func (d directory) save(name string, content []byte) error {
	f, err := d.create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		d.step("sync file")
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// scratch makes a file without a name, which is gone when it is closed.
func (d directory) scratch() (*os.File, error) {
	name := "scratch-" + rand.Text()
	f, err := d.create(name)
	if err != nil {
		return nil, err
	}
	if err := d.removeFile(name); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// symlink makes a symlink that did not exist.
func (d directory) symlink(name, target string) error {
	d.step("symlink")
	return unix.Symlinkat(target, d.fd(), name)
}

// readLink returns the target of a symlink; one of maxTarget bytes or more comes
// back as ENAMETOOLONG.
func (d directory) readLink(name string) (string, error) {
	var buf [MaxTargetBytes + 1]byte
	n, err := unix.Readlinkat(d.fd(), name, buf[:])
	if err == nil && n == len(buf) {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// sync makes the names in the directory outlast a loss of power.
func (d directory) sync() error {
	d.step("sync directory")
	return d.file.Sync()
}

// syncFile makes the content of a file outlast a loss of power.
func (d directory) syncFile(name string) error {
	f, err := d.openRead(name)
	if err != nil {
		return err
	}
	d.step("sync file")
	return errors.Join(f.Sync(), f.Close())
}

func (d directory) open(name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// lstat looks at what is called name.
func (d directory) lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// exists tells whether something is called name.
func (d directory) exists(name string) (bool, error) {
	_, err := d.lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// rename moves name into another directory, replacing what newName was. Neither
// name is followed.
func (d directory) rename(name string, to directory, newName string) error {
	d.step("rename")
	return unix.Renameat(d.fd(), name, to.fd(), newName)
}

// renameNew is rename, and fails with EEXIST when newName is there. A file system
// that cannot do both at once (NFS) looks first.
func (d directory) renameNew(name string, to directory, newName string) error {
	d.step("rename")
	err := unix.Renameat2(d.fd(), name, to.fd(), newName, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if there, err := to.exists(newName); there || err != nil {
		return errors.Join(err, unix.EEXIST)
	}
	return unix.Renameat(d.fd(), name, to.fd(), newName)
}

// link gives name a second name. Without AT_SYMLINK_FOLLOW a symlink is linked
// itself.
func (d directory) link(name string, to directory, newName string) error {
	d.step("link")
	return unix.Linkat(d.fd(), name, to.fd(), newName, 0)
}

func (d directory) removeFile(name string) error {
	d.step("unlink")
	return unix.Unlinkat(d.fd(), name, 0)
}

func (d directory) removeDir(name string) error {
	d.step("rmdir")
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

// drop is removeTree for what means something by its name: it loses that first.
func (d directory) drop(name string) error {
	gone := "gone-" + rand.Text()
	if err := d.rename(name, d, gone); err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	return d.removeTree(gone)
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
