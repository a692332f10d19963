// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestCopyOfADirectoryThereAndBack(t *testing.T) {
	w := newWorld(t)
	workspace, dir := w.WithRunner(t, ""), t.TempDir()
	tree := map[string]string{
		"p/": "", "p/a": "a", "p/run.sh": "+run", "p/d/": "", "p/d/e/": "", "p/d/e/f": "\x00\xff", "p/empty/": "", "p/link": "-> d/e/f",
		"p/dotted": "-> ./a", "p/slashed": "-> d/", "p/d/both": "-> .././d/e/",
		"p/node_modules/": "", "p/node_modules/x": "not ignored",
	}
	clitest.Plant(t, dir, tree)
	copied := func(prefix string) map[string]string {
		want := map[string]string{}
		for name, content := range tree {
			want[prefix+strings.TrimPrefix(name, "p/")] = content
		}
		delete(want, "")
		return want
	}
	for _, args := range [][]string{
		{"cp", filepath.Join(dir, "p"), "web:"},
		{"cp", filepath.Join(dir, "p"), "web:q/r"},
		{"cp", "web:q/r", filepath.Join(dir, "exact")},
		{"cp", "web:q/r/", dir + "/"}, // as a shell completes it
		{"cp", "web:", filepath.Join(dir, "all")},
	} {
		if code, _, stderr := w.Run(t, args...); code != 0 {
			t.Fatalf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	if diff := cmp.Diff(copied("p/"), clitest.TreeText(t, filepath.Join(dir, "all"))); strings.Contains(diff, "-  ") {
		t.Errorf("all of the workspace lacks (-want +got):\n%s", diff)
	}
	for _, at := range []string{filepath.Join(workspace, "p"), filepath.Join(workspace, "q/r"), filepath.Join(dir, "exact"), filepath.Join(dir, "r")} {
		if diff := cmp.Diff(copied(""), clitest.TreeText(t, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
}

func TestCopyLeavesOutWhatWouldLeadAwayAndSaysSo(t *testing.T) {
	w := newWorld(t)
	workspace, dir := w.WithRunner(t, ""), t.TempDir()
	clitest.Plant(t, dir, map[string]string{"p/a": "a", "p/out": "-> ../../secret", "p/root": "-> /etc/passwd"})
	if err := unix.Mkfifo(filepath.Join(dir, "p/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "p"), "web:p")
	if code != cli.ExitFailure || strings.Count(stderr, "left out ") != 3 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if diff := cmp.Diff(map[string]string{"p/": "", "p/a": "a"}, clitest.TreeText(t, workspace)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A hostile runner answers what it likes: nothing of it may be written outside of the directory
// that the person named, nor through a symlink, nor into a repository's own files.
func TestCopyFromAHostileSandboxStaysInItsDirectory(t *testing.T) {
	file := func(path, content string) syncwire.Entry {
		sum := sha256.Sum256([]byte(content))
		return syncwire.Entry{Path: path, Type: syncwire.File, Size: int64(len(content)), Digest: hex.EncodeToString(sum[:])}
	}
	link := func(path, target string) syncwire.Entry {
		return syncwire.Entry{Path: path, Type: syncwire.Symlink, Target: target}
	}
	dir := func(path string) syncwire.Entry { return syncwire.Entry{Path: path, Type: syncwire.Dir} }
	const evil = "evil"
	for name, test := range map[string]struct {
		before  map[string]string
		entries []syncwire.Entry
		want    map[string]string // below the directory
		fails   bool
	}{
		"a name that leads up":               {nil, []syncwire.Entry{file("../x", evil)}, nil, true},
		"a name that leads up on the way":    {nil, []syncwire.Entry{file("a/../../x", evil)}, nil, true},
		"an absolute name":                   {nil, []syncwire.Entry{file("/tmp/sandbar-cp-test", evil)}, nil, true},
		"a name with a backslash":            {nil, []syncwire.Entry{file(`..\x`, evil)}, nil, true},
		"a name with a control character":    {nil, []syncwire.Entry{file("a\x1b[2J", evil)}, nil, true},
		"a repository's hook":                {nil, []syncwire.Entry{file(".git/hooks/post-checkout", evil)}, nil, true},
		"a repository's hook, spelled oddly": {nil, []syncwire.Entry{file("a/.GIT./config", evil)}, nil, true},
		"a directory that leads up":          {nil, []syncwire.Entry{dir("../d")}, nil, true},
		"an absolute symlink":                {nil, []syncwire.Entry{link("l", "/etc")}, nil, true},
		"a symlink that leads up":            {nil, []syncwire.Entry{link("a/l", "../../x")}, nil, true},
		"a symlink that leads up in the end": {nil, []syncwire.Entry{link("l", "a/../../x")}, nil, true},
		"a symlink that leads up by way of another": {
			nil, []syncwire.Entry{link("d/e/top", "../.."), link("d/e/l", "top/../../outside")}, map[string]string{"d/": "", "d/e/": "", "d/e/top": "-> ../.."}, true,
		},
		"a file through a symlink that was copied": {
			nil, []syncwire.Entry{dir("d"), link("l", "d"), file("l/x", evil)}, map[string]string{"d/": "", "l": "-> d"}, true,
		},
		"a file through a symlink that was there": {
			map[string]string{"l": "-> ../outside"}, []syncwire.Entry{file("l/x", evil)}, map[string]string{"l": "-> ../outside"}, true,
		},
		"a directory through a symlink that was there": {
			map[string]string{"l": "-> ../outside"}, []syncwire.Entry{dir("l/d")}, map[string]string{"l": "-> ../outside"}, true,
		},
		"a file in the place of a symlink replaces it": {
			map[string]string{"l": "-> ../outside/canary"}, []syncwire.Entry{file("l", "new")}, map[string]string{"l": "new"}, false,
		},
		"a symlink, then a file under the same name": {
			nil, []syncwire.Entry{dir("d"), link("l", "d"), file("l", "new")}, map[string]string{"d/": "", "l": "new"}, false,
		},
		"content that does not end": {
			nil, []syncwire.Entry{{Path: "x", Type: syncwire.File, Size: 3, Digest: file("x", "abc").Digest}}, nil, true,
		},
		"content that is another": {nil, []syncwire.Entry{file("other", "promised")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, top := newWorld(t), t.TempDir()
			contents := map[string]string{"/files/x": strings.Repeat("endless", 1<<20), "/files/other": "sent"}
			for _, e := range test.entries {
				at := "/files/" + e.Path
				if e.Digest == file("", "new").Digest {
					contents[at] = "new"
				} else if contents[at] == "" {
					contents[at] = evil
				}
			}
			w.Plane = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/files" {
					lines := json.NewEncoder(rw)
					_ = lines.Encode(syncwire.ListingHead{Entries: len(test.entries)})
					for _, e := range test.entries {
						_ = lines.Encode(e)
					}
					return
				}
				_, _ = rw.Write([]byte(contents[r.URL.Path]))
			}
			here := filepath.Join(top, "here")
			clitest.Plant(t, top, map[string]string{"outside/canary": "alive", "here/": ""})
			clitest.Plant(t, here, test.before)
			code, _, stderr := w.Run(t, "cp", "web:", here)
			if (code != 0) != test.fails {
				t.Errorf("exit code %d, %q", code, stderr)
			}
			if strings.ContainsRune(stderr, '\x1b') {
				t.Errorf("a name reaches the terminal as it is: %q", stderr)
			}
			want := map[string]string{"outside/": "", "outside/canary": "alive", "here/": ""}
			for name, content := range test.want {
				want["here/"+name] = content
			}
			got := clitest.TreeText(t, top)
			delete(got, "here/a/") // a directory on the way to what was refused is no harm
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := os.Lstat("/tmp/sandbar-cp-test"); err == nil {
				t.Error("an absolute name was written to")
			}
		})
	}
}
