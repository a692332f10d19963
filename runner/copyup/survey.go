// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

const (
	// diskBlock is the unit of what Linux says that a file takes.
	diskBlock = 512
	// inlineTarget is the length from which a symbolic link takes a block, on ext4.
	inlineTarget = 60
	// entryBytes is what a name takes of its directory, in addition to its letters.
	entryBytes = 12
	// leastMargin is how much space a copy leaves at least, for the file system's own and for the marker; of a large
	// tree it is a hundredth. spareInodes is the same for inodes.
	leastMargin = 64 << 10
	spareInodes = 16
)

// survey finds out what the copy will take of the volume.
type survey struct {
	limits Limits
	block  int64 // what is written takes a multiple of it
	files  int64 // names of files and symbolic links
	bytes  int64 // content
	need   int64 // space
	inodes int64
	// linked has the files with several names, and how many of these are in the tree.
	linked map[inode]int32
	names  int64 // of those
}

// take walks through the source.
func (s *survey) take(ctx context.Context, w *walk, source folder, st unix.Statx_t) error {
	w.visitor, w.tally = s, &tally{} // what is left out is counted by the copy
	top, err := source.folder(".")
	if err != nil {
		return fmt.Errorf("opening the source: %w", err)
	}
	s.need += s.block
	return w.run(ctx, &level{source: top, stat: st})
}

func (s *survey) enter(_, _ *level, name string) error {
	s.inodes++
	s.need += s.block + int64(len(name)) + entryBytes
	return nil
}

func (s *survey) leave(l *level) error {
	l.source.close()
	return nil
}

func (s *survey) entry(in *level, name string, st *unix.Statx_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFREG && unreadable(in, name, st) {
		return nil
	}
	s.files++
	s.need += int64(len(name)) + entryBytes
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		if st.Size > uint64(s.limits.TargetBytes) {
			return longTarget(in.join(name), s.limits)
		}
		s.inodes++
		if st.Size >= inlineTarget {
			s.need += s.block
		}
		return nil
	}
	if st.Nlink > 1 {
		if s.names++; s.names > s.limits.Linked {
			return tooLarge("it has more than %d names of files with several names (hard links)", s.limits.Linked)
		}
		if s.linked[inodeOf(st)]++; s.linked[inodeOf(st)] > 1 {
			return nil
		}
	}
	s.inodes++
	content := contentOf(st)
	s.bytes += content
	s.need += (content + s.block - 1) / s.block * s.block
	return nil
}

// contentOf is a file's size without its holes. A small file is copied with them: some file systems keep it in the inode,
// and say that it takes no block.
func contentOf(st *unix.Statx_t) int64 {
	if st.Size <= smallBytes {
		return int64(st.Size)
	}
	return int64(min(st.Size, st.Blocks*diskBlock))
}

// unreadable reports whether the pod's user cannot read a file. It asks only if some users cannot.
func unreadable(in *level, name string, st *unix.Statx_t) bool {
	const all = unix.S_IRUSR | unix.S_IRGRP | unix.S_IROTH
	return st.Mode&all != all && denied(unix.Faccessat(in.source.fd, name, unix.R_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW))
}

// fits returns an error if the volume has not the room for the copy.
func (s *survey) fits(volume folder, source string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(volume.fd, &fs); err != nil {
		return fmt.Errorf("asking the volume for its size: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; s.need+max(s.need/100, leastMargin) > free {
		return refuse(copywire.VolumeTooSmall, "the files below %s are %s, and the volume has %s: ask for a larger volume", source, size(s.need), size(free))
	}
	// File systems that make inodes as they need them say that they have none.
	if fs.Files > 0 && uint64(s.inodes+spareInodes) > fs.Ffree {
		return refuse(copywire.VolumeTooSmall, "%s has %d files and directories, and the volume has room for %d: ask for a larger volume", source, s.inodes, fs.Ffree)
	}
	return nil
}
