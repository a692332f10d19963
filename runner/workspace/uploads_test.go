// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// stage adds a part of content, of which only the first n bytes come.
func stage(w *Workspace, content string, offset, n int) (int64, error) {
	part, err := w.Stage(syncwire.Frame{
		Digest: digestOf(content), Size: int64(len(content)), Offset: int64(offset), Length: int64(len(content) - offset),
	})
	if err != nil {
		return 0, err
	}
	filled := part.Fill(strings.NewReader(content[offset:offset+n]), int64(n))
	staged, err := part.Close()
	return staged.Offset, errors.Join(filled, err)
}

func stagedOf(t *testing.T, w *Workspace, content string) int64 {
	t.Helper()
	staged, err := w.Staged(digestOf(content))
	must(t, err)
	return staged.Offset
}

// take applies a batch with staged content at a path.
func take(w *Workspace, path, content string, expect *syncwire.Entry) (Result, error) {
	b, err := w.NewBatch()
	if err != nil {
		return Result{}, err
	}
	defer b.Discard()
	executable := false
	err = b.Staged(syncwire.Frame{Path: path, Size: int64(len(content)), Digest: digestOf(content), Expect: expect, Executable: &executable})
	if err != nil {
		return Result{}, err
	}
	return b.Commit()
}

func codeOf(err error) Code {
	var known *Error
	if errors.As(err, &known) {
		return known.Code
	}
	return Code(fmt.Sprint(err))
}

// uploadsIn are the names of the contents that wait.
func uploadsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, StagingName, UploadsName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What arrived stays, over connections and runners, is seen nowhere in the tree, and becomes a file
// in one step once all of it is there.
func TestStagedContentGoesOnWhereItWas(t *testing.T) {
	dir, content := t.TempDir(), strings.Repeat("0123456789", 10_000)
	w, err := Open(dir, DefaultLimits())
	must(t, err)
	if n, err := stage(w, content, 0, 70_000); n != 70_000 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := take(w, "a", content, nil); codeOf(err) != CodeSourceChanged || !strings.Contains(err.Error(), "70000 of 100000") {
		t.Errorf("half of a file: %v", err)
	}
	if empty, _ := w.Empty(); !empty {
		t.Error("half of a file is seen in the workspace")
	}
	w.Close()
	w = open(t, dir, DefaultLimits()) // another runner
	if n := stagedOf(t, w, content); n != 70_000 {
		t.Fatalf("the next runner has %d bytes", n)
	}
	for _, offset := range []int{0, 69_999, 70_001} {
		if _, err := stage(w, content, offset, 1); codeOf(err) != CodeOffsetMismatch || !strings.Contains(err.Error(), "70000") {
			t.Errorf("a part at %d: %v", offset, err)
		}
	}
	if n, err := stage(w, content, 70_000, 30_000); n != 100_000 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if r, err := take(w, "sub/a", content, &syncwire.Entry{Type: syncwire.None}); err != nil || r.Revision != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "sub/a"))
	must(t, err)
	if string(got) != content || len(uploadsIn(t, dir)) > 0 {
		t.Errorf("the file has %d bytes, and %v waits", len(got), uploadsIn(t, dir))
	}
	if _, err := take(w, "b", content, nil); codeOf(err) != CodeSourceChanged {
		t.Errorf("content that was taken is taken again: %v", err)
	}
}

func TestABatchThatIsRefusedLeavesStagedContentForTheNext(t *testing.T) {
	dir, content := t.TempDir(), "content"
	tree{"a": "other"}.make(t, dir)
	w := open(t, dir, DefaultLimits())
	if _, err := stage(w, content, 0, len(content)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := take(w, "a", content, &syncwire.Entry{Type: syncwire.None}); codeOf(err) != CodeConflict {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := take(w, "a", content, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	must(t, err)
	if st, _ := info.Sys().(*syscall.Stat_t); st.Nlink != 1 || info.Mode() != 0o644 {
		t.Errorf("the file has %d names and the mode %v", st.Nlink, info.Mode())
	}
}

func TestStagedContentThatIsNotThePromisedOneIsDropped(t *testing.T) {
	dir, content := t.TempDir(), strings.Repeat("x", 1000)
	w := open(t, dir, DefaultLimits())
	name := filepath.Join(dir, StagingName, UploadsName, digestOf(content))
	for what, spoil := range map[string]func(){
		"other bytes were sent": func() {
			part, err := w.Stage(syncwire.Frame{Digest: digestOf(content), Size: 1000, Length: 1000})
			must(t, err)
			must(t, part.Fill(strings.NewReader(strings.Repeat("y", 1000)), 1000))
			if _, err := part.Close(); codeOf(err) != CodeSourceChanged {
				t.Errorf("got %v", err)
			}
		},
		"the app wrote to it": func() {
			_, err := stage(w, content, 0, 1000)
			must(t, err)
			must(t, os.WriteFile(name, []byte(strings.Repeat("z", 1000)), 0o644))
			must(t, os.Chtimes(name, time.Time{}, time.Now().Add(time.Second)))
		},
		"the app gave it a second name": func() {
			_, err := stage(w, content, 0, 1000)
			must(t, err)
			must(t, os.Chtimes(name, time.Time{}, time.Now().Add(time.Second)))
			_ = os.Remove(filepath.Join(dir, "alias"))
			must(t, os.Link(name, filepath.Join(dir, "alias")))
		},
		"the app put a symlink in its place": func() {
			must(t, os.MkdirAll(filepath.Dir(name), 0o700))
			_ = os.Remove(name)
			must(t, os.Symlink("/etc/passwd", name))
		},
	} {
		spoil()
		if _, err := take(w, "a", content, nil); codeOf(err) != CodeSourceChanged {
			t.Errorf("%s: %v", what, err)
		}
		must(t, os.RemoveAll(name))
	}
}

func TestTheNewestRequestGoesOnWithAContent(t *testing.T) {
	w, content := open(t, t.TempDir(), DefaultLimits()), "0123456789"
	f := syncwire.Frame{Digest: digestOf(content), Size: 10, Length: 10}
	old, err := w.Stage(f)
	must(t, err)
	must(t, old.Fill(strings.NewReader("0123"), 4))
	f.Offset, f.Length = 4, 6
	newest, err := w.Stage(f)
	must(t, err)
	if err := old.Fill(strings.NewReader("4"), 1); codeOf(err) != CodeOffsetMismatch {
		t.Errorf("the old connection: %v", err)
	}
	_, err = old.Close()
	must(t, err)
	must(t, newest.Fill(strings.NewReader("456789"), 6))
	if staged, err := newest.Close(); err != nil || staged.Offset != 10 {
		t.Errorf("%+v, %v", staged, err)
	}
}

// Nobody may fill a volume with what nobody will finish.
func TestUnfinishedUploadsAreBounded(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(dir, limits(10, 1000))
	must(t, err)
	at := func(i int) string { return fmt.Sprintf("content %02d", i) }
	for i := range MaxUploads + 3 {
		if _, err := stage(w, at(i), 0, 3); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, StagingName, UploadsName, digestOf(at(i)))
		must(t, os.Chtimes(name, time.Time{}, time.Now().Add(time.Duration(i-100)*time.Minute)))
	}
	if names := uploadsIn(t, dir); len(names) != MaxUploads {
		t.Errorf("%d contents wait", len(names))
	}
	if stagedOf(t, w, at(2)) != 0 || stagedOf(t, w, at(3)) != 3 {
		t.Error("it is not the oldest that are gone")
	}
	if _, err := stage(w, strings.Repeat("x", 1001), 0, 1); codeOf(err) != CodeFileTooLarge || !strings.Contains(err.Error(), "1000 bytes a file") {
		t.Errorf("a file that is too large: %v", err)
	}
	w.Close()
	old := filepath.Join(dir, StagingName, UploadsName, digestOf(at(10)))
	must(t, os.Chtimes(old, time.Time{}, time.Now().Add(-UploadAge-time.Minute)))
	must(t, os.WriteFile(filepath.Join(dir, StagingName, UploadsName, "not-a-digest"), nil, 0o644))
	w = open(t, dir, limits(10, 1000))
	if names := uploadsIn(t, dir); len(names) != MaxUploads-1 || stagedOf(t, w, at(10)) != 0 {
		t.Errorf("the next runner leaves %v", names)
	}
}

// The workspace's limit counts what waits, and says no before anything is sent.
func TestStagedContentCountsForTheWorkspacesLimit(t *testing.T) {
	dir := t.TempDir()
	l := DefaultLimits()
	l.TotalBytes = 100_000
	w := open(t, dir, l)
	if _, err := stage(w, strings.Repeat("a", 60_000), 0, 50_000); err != nil {
		t.Fatal(err)
	}
	if _, err := stage(w, strings.Repeat("b", 60_000), 0, 1); codeOf(err) != CodeNoSpace || !strings.Contains(err.Error(), "limit is 100000 bytes") {
		t.Errorf("got %v", err)
	}
	if names := uploadsIn(t, dir); len(names) != 1 {
		t.Errorf("what was refused left %v", names)
	}
}

// A volume that is full is told as that, and gets back what was half there.
func TestAFullVolumeKeepsNothingHalfDone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a small volume")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no volume can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	w := open(t, dir, DefaultLimits())
	content := strings.Repeat("x", 2<<20)
	if _, err := stage(w, content, 0, 1); codeOf(err) != CodeNoSpace || !strings.Contains(err.Error(), "bytes free, and the file needs 2097152 more") {
		t.Errorf("a file that is larger than the volume: %v", err)
	}
	content = content[:700<<10]
	part, err := w.Stage(syncwire.Frame{Digest: digestOf(content), Size: int64(len(content)), Length: int64(len(content))})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "app"), make([]byte, 600<<10), 0o644)) // meanwhile
	if err := part.Fill(strings.NewReader(content), int64(len(content))); codeOf(err) != CodeNoSpace || !strings.Contains(err.Error(), "no space is left") {
		t.Errorf("got %v", err)
	}
	_, err = part.Close()
	must(t, err)
	if names := uploadsIn(t, dir); len(names) > 0 {
		t.Errorf("%v is left", names)
	}
	must(t, os.WriteFile(filepath.Join(dir, "more"), make([]byte, 300<<10), 0o644))
}

// The digest of a large file that a batch brought is known without reading it, also to the next
// runner, until somebody writes to it.
func TestALargeFileIsKnownByItsBatch(t *testing.T) {
	dir, content := t.TempDir(), strings.Repeat("x", 1000)
	reopen := func() *Workspace {
		w, err := Open(dir, DefaultLimits())
		must(t, err)
		w.hashed = 100
		return w
	}
	w := reopen()
	_, err := stage(w, content, 0, 1000)
	must(t, err)
	_, err = take(w, "sub/large", content, nil)
	must(t, err)
	tree{"made": content}.make(t, dir)
	for range 2 {
		if e, err := w.Describe("sub/large"); err != nil || e.Digest != digestOf(content) {
			t.Errorf("the large file is %+v, %v", e, err)
		}
		if e, err := w.Describe("made"); err != nil || e.Digest != "" || e.Size != 1000 {
			t.Errorf("the app's large file is %+v, %v", e, err)
		}
		w.Close()
		w = reopen()
	}
	must(t, os.WriteFile(filepath.Join(dir, "sub/large"), []byte(strings.Repeat("y", 1000)), 0o644))
	if e, err := w.Describe("sub/large"); err != nil || e.Digest != "" {
		t.Errorf("the changed file is %+v, %v", e, err)
	}
	w.Close()
}
