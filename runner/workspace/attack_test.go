// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// attackTimeVariable sets how long the race goes on; the default is enough for some
// ten thousand exchanges.
const attackTimeVariable = "SANDBAR_TEST_ATTACK_TIME"

func attackTime(t *testing.T) time.Duration {
	t.Helper()
	value := os.Getenv(attackTimeVariable)
	if value == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(value)
	must(t, err)
	return d
}

// A directory and symlinks to a directory outside, to one inside and to the top are
// exchanged in an endless loop while files are synced into and deleted from that
// name. Whatever the sync sees, nothing may appear, change or vanish but in the
// directory.
func TestExchangingADirectoryForASymlinkLeadsNowhere(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	safe := tree{"victim": "safe", "sub/victim": "safe"}
	safe.make(t, outside)
	safe.make(t, filepath.Join(dir, "inside"))
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	for name, target := range map[string]string{"l1": outside, "l2": "inside", "l3": "/proc/self/root" + outside} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	w := open(t, dir, DefaultLimits())

	var race sync.WaitGroup
	stop := make(chan struct{})
	race.Go(func() {
		d, err := openTop(dir)
		if err != nil {
			t.Error(err)
			return
		}
		defer d.close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			other := fmt.Sprintf("l%d", i%3+1)
			// Twice, so that the directory is "a" half of the time.
			for range 2 {
				if err := unix.Renameat2(d.fd(), "a", d.fd(), other, unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("exchanging: %v", err)
					return
				}
			}
		}
	})

	var applied, refused int
	for end := time.Now().Add(attackTime(t)); time.Now().Before(end); {
		for _, changes := range [][]change{
			{{path: "a/victim", content: "evil"}, {path: "a/sub/victim", content: "evil"}, {path: "a/new/file", content: "evil"}},
			{{path: "a/victim", delete: true}, {path: "a/sub", delete: true}},
		} {
			_, err := apply(w, changes)
			var refusal *Error
			switch {
			case err == nil:
				applied++
			case errors.As(err, &refusal) && (refusal.Code == CodeConflict || refusal.Code == CodePartiallyApplied):
				refused++
			default:
				t.Errorf("the error is %v", err)
			}
		}
		// What reads must not be led out either, whatever it is told lies there.
		for _, path := range []string{"a/victim", "a/sub/victim"} {
			if f, err := w.OpenFile(path); err == nil {
				content, _ := io.ReadAll(f)
				_ = f.Close()
				if string(content) == "safe" {
					t.Errorf("%s was read through a symlink", path)
				}
			}
			if e, err := w.Describe(path); err == nil && e.Digest == digestOf("safe") {
				t.Errorf("%s was described through a symlink", path)
			}
		}
		for _, put := range []func(*Batch) error{
			func(b *Batch) error { return b.Symlink("a/victim", "sub", nil) },
			func(b *Batch) error { return b.Dir("a/victim/dir", nil) },
			func(b *Batch) error { return b.Remove("a/victim", nil) },
			func(b *Batch) error {
				f, err := b.File(syncwire.Frame{Path: "copied", Size: 4, Digest: digestOf("safe")})
				if err != nil {
					return err
				}
				defer f.Abort()
				return errors.Join(f.Copy("a/victim", 0, 4), f.Close())
			},
		} {
			b, err := w.NewBatch()
			must(t, err)
			if put(b) == nil {
				_, _ = b.Commit()
			}
			b.Discard()
		}
		if listing, err := w.List(nil); err == nil {
			text, _ := io.ReadAll(listing.Lines())
			listing.Close()
			if strings.Contains(string(text), "\"a/victim\",\"type\":\"file\",\"size\":4,\"digest\":\""+digestOf("safe")) {
				t.Error("the listing went through a symlink")
			}
		}
	}
	close(stop)
	race.Wait()
	if _, err := os.Stat(filepath.Join(dir, "copied")); err == nil {
		t.Error("content was copied through a symlink")
	}

	t.Logf("%d batches were applied, %d refused", applied, refused)
	if applied == 0 || refused == 0 {
		t.Errorf("%d applied and %d refused: the race did not take place", applied, refused)
	}
	for _, place := range []string{outside, filepath.Join(dir, "inside")} {
		if diff := cmp.Diff(safe, treeOf(t, place)); diff != "" {
			t.Errorf("%s changed (-want +got):\n%s", place, diff)
		}
	}
}

// Everything that a hostile app can leave in its workspace is listed without
// blocking, without being followed, and at bounded cost.
func TestAHostileTreeIsListed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	tree{"secret": "safe"}.make(t, outside)
	in := func(name string) string { return filepath.Join(dir, name) }
	tree{
		"plain": "x", "out": "->" + outside, "root": "->/proc/self/root", "loop": "->loop", "dangling": "->nowhere",
		"Case": "1", "case": "2", "caf\u00e9": "composed", "cafe\u0301": "decomposed", "trailing ": "x", "...": "x",
		"-rf": "x", "new\nline": "x", "esc\x1b[2J": "x", "bad\xff": "x", `back\slash`: "x", "bad\xffdir/inner": "x",
	}.make(t, dir)
	must(t, unix.Mkfifo(in("fifo"), 0o644))
	must(t, os.Link(filepath.Join(outside, "secret"), in("hardlink")))
	sparse, err := os.Create(in("sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<42))
	must(t, sparse.Close())
	deep, err := openTop(dir)
	must(t, err)
	for range 3 * MaxPathDepth {
		sub, _, err := deep.openOrMakeDir("deep", 0o755)
		must(t, err)
		deep.close()
		deep = sub
	}
	deep.close()
	// Neither a device's reading nor a directory without rights may stop it; not
	// every place where tests run lets them be made.
	device := unix.Mknod(in("device"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) == nil

	w := open(t, dir, DefaultLimits())
	listing, err := w.List(nil)
	must(t, err)
	defer listing.Close()
	found := map[string]syncwire.Entry{}
	for d := json.NewDecoder(listing.Lines()); d.More(); {
		var e syncwire.Entry
		must(t, d.Decode(&e))
		found[e.Path] = e
	}
	for name, want := range map[string]syncwire.Entry{
		"plain": {Type: syncwire.File, Digest: digestOf("x")}, "out": {Type: syncwire.Symlink, Target: outside},
		"root": {Type: syncwire.Symlink, Target: "/proc/self/root"}, "loop": {Type: syncwire.Symlink, Target: "loop"},
		"Case": {Type: syncwire.File, Digest: digestOf("1")}, "case": {Type: syncwire.File, Digest: digestOf("2")},
		"caf\u00e9": {Type: syncwire.File, Digest: digestOf("composed")}, "cafe\u0301": {Type: syncwire.File, Digest: digestOf("decomposed")},
		"trailing ": {Type: syncwire.File, Digest: digestOf("x")}, "fifo": {Type: syncwire.Other}, "sparse": {Type: syncwire.File},
		"device": {Type: syncwire.Other},
	} {
		if got := found[name]; got.Type != want.Type || got.Digest != want.Digest || got.Target != want.Target {
			if name != "device" || device {
				t.Errorf("%q is listed as %+v, want %+v", name, got, want)
			}
		}
	}
	if _, there := found["out/secret"]; there {
		t.Error("the listing followed a symlink")
	}
	// Five names that are no paths, and the first directory below the deepest.
	if listing.Head.Skipped != 6 {
		t.Errorf("%d things were skipped, want 6", listing.Head.Skipped)
	}
	used, err := w.count()
	must(t, err)
	if used.bytes > 1<<20 {
		t.Errorf("the workspace counts %d bytes; a sparse file takes none", used.bytes)
	}
	for path, refused := range map[string]bool{"fifo": true, "out": true, "device": device, "plain": false} {
		f, err := w.OpenFile(path)
		if (err != nil) != refused && (path != "device" || device) {
			t.Errorf("opening %s: %v", path, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
	// And all of it can be replaced by plain files.
	changes := []change{}
	for _, path := range []string{"out", "root", "loop", "dangling", "fifo", "hardlink", "sparse", "device"} {
		changes = append(changes, change{path: path, content: "plain"})
	}
	_, err = apply(w, append(changes, change{path: "deep", delete: true}))
	must(t, err)
	if diff := cmp.Diff(tree{"secret": "safe"}, treeOf(t, outside)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

func TestSymlinkTargets(t *testing.T) {
	for _, test := range []struct {
		path, target string
		ok           bool
	}{
		{"l", "a", true},
		{"l", "a/b", true},
		{"d/l", "../a", true},
		{"d/l", "..", true},
		{"d/e/l", "../../a", true},
		{"l", ".", true},
		{"l", "", false},
		{"l", "/a", false},
		{"d/l", "/a", false},
		{"l", "..", false},
		{"l", "../a", false},
		{"d/l", "../..", false},
		{"d/l", "../../a", false},
		{"d/l", "a/../..", true},
		{"d/l", "a/../b", true},
		{"l", "./a", true},
		{"l", "a/", true},
		{"l", "a//b", true},
		{"d/l", "..//a", true},
		{"d/l", "a/../../..", false},
		{"l", "a/../../b", false},
		{"l", "a/../.sandbar", false},
		{"l", "./.sandbar/", false},
		{"d/l", ".././..", false},
		{"l", ".sandbar", false},
		{"d/l", "../.Sandbar/x", false},
		{"l", "a\x00", false},
		{"l", "a\n", false},
		{"l", strings.Repeat("a/", 600) + "a", false},
	} {
		if err := CheckTarget(test.path, test.target); (err == nil) != test.ok {
			t.Errorf("%q at %q: %v", test.target, test.path, err)
		}
	}
}

func FuzzCheckTarget(f *testing.F) {
	for _, seed := range [][2]string{{"d/l", "../a"}, {"l", "/etc"}, {"d/e/l", "../../../x"}, {"l", "a/../../b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, target string) {
		if CheckPath(path) != nil || CheckTarget(path, target) != nil {
			return
		}
		if filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(path), target)) {
			t.Errorf("%q at %q leads out", target, path)
		}
	})
}
