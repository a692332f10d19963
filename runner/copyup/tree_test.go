// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is something that a test puts into the image.
type entry struct {
	content string
	mode    fs.FileMode // 0: 0644, and 0755 for a directory
	shut    bool        // the mode is 0
	dir     bool
	symlink string // where it leads
	same    string // the path of which this is another name
	holes   int64  // the size, of which the content is the end
	special uint32 // a FIFO, a socket or a device
}

// image has the entries by their paths.
type image map[string]entry

// make makes the entries below dir, the parents of each among them, and gives each a time of its own.
func (m image) make(t testing.TB, dir string) {
	t.Helper()
	var paths []string
	for path := range m {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for pass := range 2 { // second names behind the first
		for _, path := range paths {
			if e := m[path]; (e.same != "") == (pass == 1) {
				e.make(t, dir, path)
			}
		}
	}
	// From the bottom, because a change below changes the time of a directory, and its mode may forbid the change.
	slices.Reverse(paths)
	for i, path := range paths {
		full, e := filepath.Join(dir, path), m[path]
		if e.mode != 0 || e.shut {
			must(t, unix.Chmod(full, uint32(e.mode)))
		}
		when := []unix.Timespec{{Sec: 1}, {Sec: int64(1_000_000_000 + i), Nsec: int64(123_456_000 + i)}}
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, full, when, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func (e entry) make(t testing.TB, dir, path string) {
	t.Helper()
	full := filepath.Join(dir, path)
	must(t, os.MkdirAll(filepath.Dir(full), 0o755))
	switch {
	case e.dir:
		must(t, os.MkdirAll(full, 0o755))
	case e.symlink != "":
		must(t, os.Symlink(e.symlink, full))
	case e.same != "":
		must(t, os.Link(filepath.Join(dir, e.same), full))
	case e.special != 0:
		must(t, unix.Mknod(full, e.special|0o600, int(unix.Mkdev(1, 3))))
	default:
		must(t, os.WriteFile(full, nil, 0o644))
		f, err := os.OpenFile(full, os.O_WRONLY, 0)
		must(t, err)
		must(t, f.Truncate(max(e.holes, int64(len(e.content)))))
		_, err = f.WriteAt([]byte(e.content), max(0, e.holes-int64(len(e.content))))
		must(t, err)
		must(t, f.Close())
	}
}

// describe returns what lies below dir, a line for each path, with all that a copy keeps. Files with several names have the
// first of them.
func describe(t testing.TB, dir string) map[string]string {
	t.Helper()
	got, first := map[string]string{}, map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(full string, _ fs.DirEntry, err error) error {
		must(t, err)
		path, err := filepath.Rel(dir, full)
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Lstat(full, &st))
		line := fmt.Sprintf("%o %s", st.Mode, time.Unix(st.Mtim.Unix()).UTC().Format(time.RFC3339Nano))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := os.Readlink(full)
			must(t, err)
			line += " -> " + target
		case unix.S_IFREG:
			content, err := os.ReadFile(full)
			must(t, err)
			line += fmt.Sprintf(" %d %x", st.Size, sha256.Sum256(content))
			if st.Nlink > 1 {
				if first[st.Ino] == "" {
					first[st.Ino] = path
				}
				line += " as " + first[st.Ino]
			}
		}
		got[path] = line
		return nil
	}))
	return got
}

// copied describes the workspace of a volume.
func copied(t testing.TB, volume string) map[string]string {
	t.Helper()
	return describe(t, filepath.Join(volume, workspace.TreeName))
}

// folders makes the image's directory and a volume.
func folders(t testing.TB) (source, volume string) {
	t.Helper()
	return foldersIn(t, t.TempDir())
}

// quickFolders is folders in memory, where the machine has such a file system, for tests that copy many times: each copy waits
// until all of its file system is on disk.
func quickFolders(t testing.TB) (source, volume string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sandbar-copyup") //nolint:usetesting // see above
	if err != nil {
		return folders(t)
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return foldersIn(t, dir)
}

func foldersIn(t testing.TB, dir string) (source, volume string) {
	t.Helper()
	source, volume = filepath.Join(dir, "app"), filepath.Join(dir, "volume")
	must(t, os.Mkdir(source, 0o755))
	must(t, os.Mkdir(volume, 0o755))
	t.Cleanup(func() { // which root needs not
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o755)
			}
			return nil
		})
	})
	return source, volume
}

// run copies, and wants an outcome whose message has all the words.
func run(t testing.TB, o Options, want copywire.Reason, words ...string) copywire.Result {
	t.Helper()
	r := Run(t.Context(), o)
	if r.Reason != want {
		t.Fatalf("got %s (%s), want %s", r.Reason, r.Message, want)
	}
	for _, w := range words {
		if !strings.Contains(r.Message, w) {
			t.Errorf("the message is %q, and has not %q", r.Message, w)
		}
	}
	return r
}

func namesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
