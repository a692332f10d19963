// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func segments(t testing.TB, dir string) [2]*os.File {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("log-%d", i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	return files
}

// reopen is a runner that starts on the directory. The one before may have been
// killed: nothing is closed.
func reopen(t *testing.T, dir string) *Ring {
	t.Helper()
	r := Open(MinCapacity, segments(t, dir), func(err error) { t.Errorf("the log is not kept: %v", err) })
	t.Cleanup(r.Close)
	return r
}

func TestALogGoesOnInTheNextRunner(t *testing.T) {
	dir := t.TempDir()
	first := reopen(t, dir)
	first.Append(out, noon, []byte("one\ntwo\npart"))
	first.Append(errs, noon.Add(time.Second), []byte("oops\n"))
	_, end := first.Bounds()

	second := reopen(t, dir)
	if second.ID() != first.ID() {
		t.Errorf("the log is called %s and then %s", first.ID(), second.ID())
	}
	if got := text(second, 0, All, false); got != "one\ntwo\npart\noops\n"+restarted {
		t.Errorf("the log is %q", got)
	}
	if got := text(second, end, All, false); got != restarted {
		t.Errorf("behind its end is %q, want the line that tells of the restart", got)
	}
	second.Append(out, noon, []byte("three\n"))
	third := reopen(t, dir)
	if got := text(third, end, All, false); got != restarted+"three\n"+restarted {
		t.Errorf("behind the first end is %q", got)
	}
	if third.Since(noon.Add(time.Second)) != 12 {
		t.Errorf("the times are lost: since is %d", third.Since(noon.Add(time.Second)))
	}
}

// A follower resumes across kills, while the segments turn over many times.
func TestAFollowerHasEveryByteOnceOrAGapAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	var at, lost int64
	var n, seen int
	follow := func(r *Ring) {
		var b Batch
		for rd := r.Reader(at, All); rd.Fill(&b, math.MaxInt64); at = rd.Offset() {
			if b.Lost > 0 {
				lost += b.Lost
				seen = -1
			}
			for _, e := range b.Entries {
				var line int
				if bytes.HasPrefix(e.Data, []byte("[sandbar")) {
					continue
				}
				if _, err := fmt.Sscanf(string(e.Data), "%d\n", &line); err != nil || seen >= 0 && line != seen {
					t.Fatalf("line %q comes where line %d belongs", e.Data, seen)
				}
				seen = line + 1
			}
		}
	}
	for run := range 20 {
		r := reopen(t, dir)
		for turn := range 30 {
			for range 200 {
				r.Append(out, noon, fmt.Appendf(nil, "%09d\n", n))
				n++
			}
			if run%4 > 0 && turn%3 == 0 { // else it is a slow reader
				follow(r)
			}
		}
	}
	follow(reopen(t, dir))
	if seen != n || lost == 0 {
		t.Errorf("the last line seen is %d of %d, with gaps of %d bytes", seen-1, n-1, lost)
	}
	for i := range 2 {
		if info, err := os.Stat(filepath.Join(dir, fmt.Sprintf("log-%d", i))); err != nil || info.Size() > MinCapacity/2+1000 {
			t.Errorf("segment %d has %d bytes, %v", i, info.Size(), err)
		}
	}
}

func TestWhatIsWrongInASegmentIsCutOff(t *testing.T) {
	for name, spoil := range map[string]func(text []byte) []byte{
		"a record that is cut":     func(b []byte) []byte { return b[:len(b)-3] },
		"a byte that has changed":  func(b []byte) []byte { b[len(b)-2] ^= 1; return b },
		"something behind the end": func(b []byte) []byte { return append(b, make([]byte, 1000)...) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := reopen(t, dir)
			r.Append(out, noon, []byte("one\n"))
			r.Append(out, noon, []byte("two\n"))
			path := filepath.Join(dir, "log-0")
			content, err := os.ReadFile(path)
			if err != nil || len(content) <= headBytes {
				path = filepath.Join(dir, "log-1")
				content, _ = os.ReadFile(path)
			}
			if err := os.WriteFile(path, spoil(content), 0o600); err != nil {
				t.Fatal(err)
			}
			got := text(reopen(t, dir), 0, All, false)
			if !strings.HasPrefix(got, "one\n") || !strings.HasSuffix(got, restarted) {
				t.Errorf("the log is %q", got)
			}
			if again := text(reopen(t, dir), 0, All, false); again != got+restarted {
				t.Errorf("the next time it is %q, want %q and one line more", again, got)
			}
		})
	}
}

func TestALogThatCannotBeKeptGoesOnInMemoryAndBeginsAnewLater(t *testing.T) {
	dir := t.TempDir()
	files := segments(t, dir)
	var failure error
	r := Open(MinCapacity, files, func(err error) { failure = err })
	r.Append(out, noon, []byte("one\n"))
	for _, f := range files {
		_ = f.Close() // as a volume that fails
	}
	r.Append(out, noon, []byte("two\n"))
	if failure == nil || errors.Is(failure, unix.EBADF) {
		t.Errorf("the failure told is %v", failure)
	}
	if got := text(r, 0, All, false); got != "one\ntwo\n" {
		t.Errorf("the log is %q", got)
	}
	r.Close()
}

func FuzzParseSegment(f *testing.F) {
	dir := f.TempDir()
	files := segments(f, dir)
	r := Open(MinCapacity, files, func(error) {})
	r.Append(out, noon, []byte("one\ntwo\n"))
	r.Append(errs, noon, []byte("three"))
	for i := range 2 {
		content, _ := os.ReadFile(filepath.Join(dir, fmt.Sprintf("log-%d", i)))
		f.Add(content)
	}
	r.Close()
	f.Fuzz(func(t *testing.T, content []byte) {
		s := parseSegment(bytes.NewReader(content), MinCapacity)
		at := s.first
		for _, rec := range s.records {
			if rec.offset != at || len(rec.data) == 0 {
				t.Fatalf("a record of %d bytes is at %d, want %d", len(rec.data), rec.offset, at)
			}
			at += int64(len(rec.data))
		}
		if s.size > int64(len(content)) || at > maxOffset {
			t.Fatalf("%d bytes of %d, up to offset %d", s.size, len(content), at)
		}
		ring := New(MinCapacity)
		ring.restore(s)
		if _, next := ring.Bounds(); len(s.records) > 0 && next != at {
			t.Fatalf("the ring ends at %d, want %d", next, at)
		}
	})
}

func BenchmarkAppendKept(b *testing.B) {
	line := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 600)
	r := Open(DefaultCapacity, segments(b, b.TempDir()), func(err error) { b.Error(err) })
	defer r.Close()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.Append(out, noon, line)
	}
}
