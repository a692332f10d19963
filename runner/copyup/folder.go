// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// privateMode is for directories that are being filled, and for those of the runner's own.
	privateMode = 0o700
	// markerMode is for the marker.
	markerMode = 0o600
	// namesBytes is how much of a directory is read at once.
	namesBytes = 8 << 10
)

// folder is an open directory. Its methods take one name, never a path, and follow no symlink: this is where confinement is
// kept. The attack: another container of the pod exchanges a directory of the volume for a symlink, so that the pod's user
// writes, or changes modes, where the container could not.
type folder struct {
	fd int
	// before is called ahead of each step that changes the disk, and nil outside of tests.
	before func(step string)
}

// inode identifies a file.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Statx_t) inode {
	return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

// openFolder opens the directory at a path of the operator's, the only ones that may contain slashes and symlinks.
func openFolder(path string, before func(step string)) (folder, error) {
	return folder{fd: unix.AT_FDCWD, before: before}.directory(path, 0)
}

func (f folder) close() { _ = unix.Close(f.fd) }

// step reports that the disk is about to change.
func (f folder) step(name string) {
	if f.before != nil {
		f.before(name)
	}
}

// folder opens the directory called name. O_NOFOLLOW with O_DIRECTORY refuses a symlink with ENOTDIR, and O_DIRECTORY
// keeps a FIFO from blocking the open.
func (f folder) folder(name string) (folder, error) { return f.directory(name, unix.O_NOFOLLOW) }

func (f folder) directory(name string, flags int) (folder, error) {
	fd, err := f.open(name, unix.O_RDONLY|unix.O_DIRECTORY|flags, 0)
	return folder{fd, f.before}, err
}

func (f folder) open(name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(f.fd, name, flags|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// makeFolder makes a directory that did not exist, for its user alone.
func (f folder) makeFolder(name string) (folder, error) {
	f.step("mkdir")
	if err := unix.Mkdirat(f.fd, name, privateMode); err != nil {
		return folder{fd: -1}, err
	}
	return f.folder(name)
}

// openOrMake is folder, making the directory if nothing is there.
func (f folder) openOrMake(name string) (folder, error) {
	sub, err := f.folder(name)
	if !errors.Is(err, unix.ENOENT) {
		return sub, err
	}
	return f.makeFolder(name)
}

// look returns what is called name.
func (f folder) look(name string) (st unix.Statx_t, err error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_EMPTY_PATH
	err = unix.Statx(f.fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	return st, err
}

// self returns what the directory is.
func (f folder) self() (unix.Statx_t, error) { return f.look("") }

// read opens a file for reading. O_NONBLOCK keeps a FIFO that has taken its place from blocking the open.
func (f folder) read(name string) (int, error) {
	return f.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
}

// create makes a file that did not exist, for writing. The caller sets its mode at the end.
func (f folder) create(name string, mode uint32) (int, error) {
	f.step("create")
	return f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
}

// target returns where the symlink called name leads. One of limit bytes or more comes back as ENAMETOOLONG.
func (f folder) target(name string, limit int) (string, error) {
	buf := make([]byte, limit+1)
	n, err := unix.Readlinkat(f.fd, name, buf)
	if err == nil && n > limit {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// symlink makes a symlink that did not exist.
func (f folder) symlink(name, target string) error {
	f.step("symlink")
	return unix.Symlinkat(target, f.fd, name)
}

// link gives name, in another directory, a second name here. A symlink in its place is linked itself.
func (f folder) link(from folder, name, newName string) error {
	f.step("link")
	return unix.Linkat(from.fd, name, f.fd, newName, 0)
}

// touch sets the time of the last change of what is called name, "." for the directory, and follows no symlink.
func (f folder) touch(name string, sec, nsec int64) error {
	f.step("touch")
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: sec, Nsec: nsec}}
	return unix.UtimesNanoAt(f.fd, name, times, unix.AT_SYMLINK_NOFOLLOW)
}

// chmod sets the mode of the directory.
func (f folder) chmod(mode uint32) error {
	f.step("chmod")
	return unix.Fchmod(f.fd, mode)
}

// rename moves name to another directory, where an empty directory may have the new name if name is one.
func (f folder) rename(name string, to folder, newName string) error {
	f.step("rename")
	return unix.Renameat(f.fd, name, to.fd, newName)
}

// sync makes the names in the directory outlast a loss of power.
func (f folder) sync() error {
	f.step("sync")
	return unix.Fsync(f.fd)
}

// syncAll makes all that was written to the volume outlast a loss of power.
func (f folder) syncAll() error {
	f.step("sync all")
	return unix.Syncfs(f.fd)
}

// each calls do with each name in the directory until it returns an error.
func (f folder) each(do func(name string) error) error {
	if _, err := unix.Seek(f.fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := make([]byte, namesBytes)
	for {
		n, err := unix.ReadDirent(f.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
	}
}

// remove deletes name, and all below it. It descends as deep as a copy goes, and is an error below that.
func (f folder) remove(ctx context.Context, name string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.step("unlink")
	err := unix.Unlinkat(f.fd, name, 0)
	// EISDIR is what Linux says of a directory, and EPERM what POSIX says.
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return ignore(err, unix.ENOENT)
	}
	if depth == 0 {
		return fmt.Errorf("%q lies deeper than a copy goes", name)
	}
	sub, err := f.folder(name)
	if err != nil {
		return ignore(err, unix.ENOENT)
	}
	defer sub.close()
	// A copy of a directory that nobody may write to.
	if err := sub.chmod(privateMode); err != nil {
		return err
	}
	// Some file systems leave names out of a listing during which others are deleted.
	for again := true; again; {
		again = false
		err := sub.each(func(child string) error {
			again = true
			return sub.remove(ctx, child, depth-1)
		})
		if err != nil {
			return err
		}
	}
	f.step("rmdir")
	return ignore(unix.Unlinkat(f.fd, name, unix.AT_REMOVEDIR), unix.ENOENT)
}

// ignore returns err unless it is one.
func ignore(err, one error) error {
	if errors.Is(err, one) {
		return nil
	}
	return err
}
