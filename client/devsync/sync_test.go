// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// Each row begins with both sides alike (first), then both are edited, then they are synced.
func TestWhatOneSideChangedIsCarriedOver(t *testing.T) {
	first := files{"a.txt": "a", "dir/b.txt": "b", "dir/deep/c.txt": "c", "run.sh": "x*", "link": "-> a.txt"}
	for name, c := range map[string]struct {
		here, there files
		change      func(*devsync.Options)
		// wantHere and wantThere are what is there besides or instead of first; "-" is nothing.
		wantHere, wantThere files
		conflicts, differs  []string
		undecided           []string
	}{
		"symlinks that lead inside, however they are written": {
			here:      files{"CLAUDE.md": "-> ./a.txt", "common": "-> dir/", "dir/up": "-> deep/../../a.txt", "dir/here": "-> .//"},
			wantThere: files{"CLAUDE.md": "-> ./a.txt", "common": "-> dir/", "dir/up": "-> deep/../../a.txt", "dir/here": "-> .//"},
		},
		"symlinks that the sandbox wrote": {
			there: files{"CLAUDE.md": "-> ./a.txt", "common": "-> dir/", "dir/up": "-> ./../a.txt"}, change: twoWay,
			wantHere:  files{"CLAUDE.md": "-> ./a.txt", "common": "-> dir/", "dir/up": "-> ./../a.txt"},
			wantThere: files{"CLAUDE.md": "-> ./a.txt", "common": "-> dir/", "dir/up": "-> ./../a.txt"},
		},
		"an edit, a new file, a symlink and an executable": {
			here:      files{"a.txt": "A", "new/d": "d", "l2": "-> dir/b.txt", "dir/b.txt": "b*"},
			wantThere: files{"a.txt": "A", "new/d": "d", "l2": "-> dir/b.txt", "dir/b.txt": "b*"},
		},
		"a deletion": {here: files{"dir/b.txt": "-"}, wantThere: files{"dir/b.txt": "-"}},
		"a directory that becomes a file": {
			here: files{"dir/": "-", "dir": "f"}, wantHere: files{"dir": "f", "dir/b.txt": "-", "dir/deep/c.txt": "-"},
			wantThere: files{"dir": "f", "dir/b.txt": "-", "dir/deep/c.txt": "-"},
		},
		"a file that becomes a directory": {
			here: files{"a.txt": "-", "a.txt/x": "x"}, wantThere: files{"a.txt": "-", "a.txt/x": "x"},
		},
		"what the sandbox made stays there, one way": {there: files{"out.js": "o"}, wantThere: files{"out.js": "o"}},
		"what the sandbox changed is told, one way": {
			there: files{"a.txt": "T"}, wantThere: files{"a.txt": "T"}, differs: []string{"a.txt"},
		},
		"what the sandbox made comes back, two ways": {
			there: files{"out/o.js": "o", "a.txt": "T", "run.sh": "-", "link": "-> dir", "dir/b.txt": "b*"}, change: twoWay,
			wantHere:  files{"out/o.js": "o", "a.txt": "T", "run.sh": "-", "link": "-> dir", "dir/b.txt": "b*"},
			wantThere: files{"out/o.js": "o", "a.txt": "T", "run.sh": "-", "link": "-> dir", "dir/b.txt": "b*"},
		},
		"a directory that becomes a file in the sandbox": {
			there: files{"dir/": "-", "dir": "f"}, change: twoWay,
			wantHere:  files{"dir": "f", "dir/b.txt": "-", "dir/deep/c.txt": "-"},
			wantThere: files{"dir": "f", "dir/b.txt": "-", "dir/deep/c.txt": "-"},
		},
		"a file that becomes a directory in the sandbox": {
			there: files{"a.txt": "-", "a.txt/x": "x"}, change: twoWay,
			wantHere: files{"a.txt": "-", "a.txt/x": "x"}, wantThere: files{"a.txt": "-", "a.txt/x": "x"},
		},
		"the same edit on both sides": {
			here: files{"a.txt": "S"}, there: files{"a.txt": "S"}, wantHere: files{"a.txt": "S"}, wantThere: files{"a.txt": "S"},
		},
		"two edits of one file": {
			here: files{"a.txt": "H", "n": "n"}, there: files{"a.txt": "T"},
			wantHere: files{"a.txt": "H", "n": "n"}, wantThere: files{"a.txt": "T", "n": "n"}, conflicts: []string{"a.txt"},
		},
		"an edit and a deletion": {
			here: files{"a.txt": "H", "run.sh": "-"}, there: files{"a.txt": "-", "run.sh": "T*"},
			wantHere: files{"a.txt": "H", "run.sh": "-"}, wantThere: files{"a.txt": "-", "run.sh": "T*"}, conflicts: []string{"a.txt", "run.sh"},
		},
		"a file here, a directory with new files there": {
			here: files{"n": "file"}, there: files{"n/x": "x"}, change: twoWay,
			wantHere: files{"n": "file"}, wantThere: files{"n/x": "x"}, conflicts: []string{"n", "n/x"},
		},
		"a directory with new files here, a file there": {
			here: files{"n/x": "x"}, there: files{"n": "file"},
			wantHere: files{"n/x": "x"}, wantThere: files{"n": "file"}, conflicts: []string{"n", "n/x"},
		},
		"two edits, the local side preferred": {
			here: files{"a.txt": "H", "run.sh": "-"}, there: files{"a.txt": "T", "run.sh": "T*"},
			change:   func(o *devsync.Options) { o.Prefer = devsync.Local },
			wantHere: files{"a.txt": "H", "run.sh": "-"}, wantThere: files{"a.txt": "H", "run.sh": "-"},
		},
		"two edits, the sandbox preferred for one path": {
			here: files{"a.txt": "H", "dir/b.txt": "H"}, there: files{"a.txt": "T", "dir/b.txt": "T"},
			change: func(o *devsync.Options) {
				o.Prefer, o.PreferPaths = devsync.Remotes, []string{"dir", "dri/b.txt"}
			},
			wantHere: files{"a.txt": "H", "dir/b.txt": "T"}, wantThere: files{"a.txt": "T", "dir/b.txt": "T"}, conflicts: []string{"a.txt"},
			undecided: []string{"dri/b.txt"},
		},
		"a file here preferred to a directory there": {
			here: files{"n": "file"}, there: files{"n/x": "x", "n/y/z": "z"},
			change:   func(o *devsync.Options) { o.TwoWay, o.Prefer = true, devsync.Local },
			wantHere: files{"n": "file"}, wantThere: files{"n": "file"},
		},
		"a directory there preferred to a file here": {
			here: files{"n": "file"}, there: files{"n/x": "x", "n/y/z": "z"},
			change:   func(o *devsync.Options) { o.TwoWay, o.Prefer = true, devsync.Remotes },
			wantHere: files{"n/x": "x", "n/y/z": "z"}, wantThere: files{"n/x": "x", "n/y/z": "z"},
		},
		"a directory here preferred to a file there": {
			here: files{"n/x": "x"}, there: files{"n": "file"},
			change:   func(o *devsync.Options) { o.TwoWay, o.Prefer = true, devsync.Local },
			wantHere: files{"n/x": "x"}, wantThere: files{"n/x": "x"},
		},
		"a file there preferred to a directory here": {
			here: files{"n/x": "x"}, there: files{"n": "file"},
			change:   func(o *devsync.Options) { o.TwoWay, o.Prefer = true, devsync.Remotes },
			wantHere: files{"n": "file"}, wantThere: files{"n": "file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			write(t, w.dir, first)
			if r := w.mustSync(c.change); r.Sent != len(first) || len(r.Conflicts) > 0 {
				t.Fatalf("the first sync: %+v", r)
			}
			write(t, w.dir, c.here)
			write(t, w.workspace, c.there)
			r := w.mustSync(c.change)
			if c.wantHere == nil {
				c.wantHere = c.here
			}
			if diff := cmp.Diff(with(first, c.wantHere), read(t, w.dir)); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(with(first, c.wantThere), read(t, w.workspace)); diff != "" {
				t.Errorf("the workspace (-want +got):\n%s", diff)
			}
			conflicts := []string(nil)
			for _, conflict := range r.Conflicts {
				conflicts = append(conflicts, conflict.Path)
			}
			if diff := cmp.Diff(c.conflicts, conflicts); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			if strings.Join(c.differs, " ") != strings.Join(r.Differs, " ") {
				t.Errorf("differing: got %v, want %v", r.Differs, c.differs)
			}
			if diff := cmp.Diff(c.undecided, r.Undecided); diff != "" {
				t.Errorf("undecided (-want +got):\n%s", diff)
			}
			again := w.mustSync(c.change)
			if again.Sent+again.Received > 0 || len(again.Conflicts) != len(r.Conflicts) {
				t.Errorf("a second sync had something to do: %+v", again)
			}
		})
	}
}

func with(first, change files) files {
	tree := maps.Clone(first)
	for path, content := range change {
		if content == "-" {
			delete(tree, path)
		} else {
			tree[path] = content
		}
	}
	return tree
}

func TestWhatIsIgnoredStaysWhereItIs(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{
		".gitignore": "*.log\nnode_modules\n", "sub/.gitignore": "!keep.log\n", "sub/.sandbarignore": "secret\n",
		".git/config": "g", "sub/.git": "gitdir: x", "a.log": "l", "sub/keep.log": "k", "sub/secret": "s",
		"node_modules/m": "m", "sub/a": "a",
	})
	write(t, w.workspace, files{"node_modules/linux": "x", "sub/b.log": "there", ".git/x": "x"})
	w.mustSync(twoWay)
	want := files{
		".gitignore": "*.log\nnode_modules\n", "sub/.gitignore": "!keep.log\n", "sub/.sandbarignore": "secret\n",
		"sub/keep.log": "k", "sub/a": "a", "node_modules/linux": "x", "sub/b.log": "there", ".git/x": "x",
	}
	if diff := cmp.Diff(want, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	for _, path := range []string{"node_modules/linux", "sub/b.log", ".git/x"} {
		if _, err := os.Lstat(filepath.Join(w.dir, path)); err == nil {
			t.Errorf("%s was brought back", path)
		}
	}
	// To begin to ignore a file is no deletion.
	write(t, w.dir, files{".sandbarignore": "sub/a\n"})
	w.mustSync(twoWay)
	if read(t, w.workspace)["sub/a"] != "a" || read(t, w.dir)["sub/a"] != "a" {
		t.Error("a file that is ignored from now on was deleted")
	}
	// A directory whose ignored files keep it in the sandbox does not stop the sync (Mutagen #114).
	write(t, w.dir, files{"sub": "-", "z": "z"})
	w.mustSync(twoWay)
	got := read(t, w.workspace)
	if got["sub/b.log"] != "there" || got["z"] != "z" || got["sub/.gitignore"] != "" {
		t.Errorf("after the deletion of a directory: %v", got)
	}
}

func TestAnEmptyDirectoryEmptiesNothing(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", "b/c": "c"})
	w.mustSync(nil)
	write(t, w.dir, files{"a": "-", "b": "-"})
	_, err := w.sync(nil)
	var emptied *devsync.EmptiedError
	if !errors.As(err, &emptied) || emptied.Files != 2 || len(read(t, w.workspace)) != 2 {
		t.Errorf("got %v; the workspace has %v", err, read(t, w.workspace))
	}
	w.mustSync(func(o *devsync.Options) { o.AllowEmpty = true })
	if left := read(t, w.workspace); len(left) > 0 {
		t.Errorf("with the flag, %v is left", left)
	}
	if entries, _ := os.ReadDir(w.workspace); len(entries) != 1 { // the runner's own
		t.Errorf("directories are left: %v", entries)
	}
}

func TestAnEmptyWorkspaceGetsAllAnew(t *testing.T) {
	w := newWorld(t)
	tree := files{"a": "a", "b/c": "c"}
	write(t, w.dir, tree)
	w.mustSync(twoWay)
	write(t, w.workspace, files{"a": "-", "b": "-"})
	w.mustSync(twoWay)
	if diff := cmp.Diff(tree, read(t, w.workspace)); diff != "" || len(read(t, w.dir)) != 2 {
		t.Errorf("the workspace (-want +got):\n%s; the directory has %v", diff, read(t, w.dir))
	}
}

// One file that cannot be synced does not hold up the others, and says why.
func TestARefusedFileIsToldAloneAndTheOthersGo(t *testing.T) {
	w := newWorld(t, "SANDBAR_MAX_FILE_BYTES=1000")
	write(t, w.dir, files{"big": strings.Repeat("x", 2000), "out": "-> /etc/passwd", "up": "-> ../x", `back\slash`: "x"})
	for n := range 20 {
		write(t, w.dir, files{string(rune('a' + n)): "x"})
	}
	r := w.mustSync(nil)
	reasons := map[string]string{}
	for _, refusal := range r.Refused {
		reasons[refusal.Path] = refusal.Reason
	}
	if len(reasons) != 4 || !strings.Contains(reasons["big"], "1000") || !strings.Contains(reasons["up"], "leads out") {
		t.Errorf("refused: %v", reasons)
	}
	if got := len(read(t, w.workspace)); got != 20 || r.Sent != 20 {
		t.Errorf("%d files are there, %d were sent, want 20", got, r.Sent)
	}
}

// A data plane takes less in one request than the runner does: what is too much for one goes in
// several, and what is too large by itself is refused alone, with the limit.
func TestWhatExceedsTheLimitOfARequestGoesInSeveral(t *testing.T) {
	w := newWorld(t)
	limited := func(*http.Request) fault { return fault{limit: 20 << 10} }
	w.fault.Store(&limited)
	want := files{}
	for n := range 20 {
		want[string(rune('a'+n))] = strings.Repeat(string(rune('a'+n)), 4<<10)
	}
	write(t, w.dir, want)
	write(t, w.dir, files{"big": strings.Repeat("x", 40<<10)})
	r := w.mustSync(nil)
	if len(r.Refused) != 1 || r.Refused[0].Path != "big" || !strings.Contains(r.Refused[0].Reason, "20480") {
		t.Errorf("refused: %v", r.Refused)
	}
	if diff := cmp.Diff(want, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// An app that is started from a part of a project has read a part of its configuration.
func TestAFirstSyncOfSeveralBatchesStartsTheAppOnceWithAllFiles(t *testing.T) {
	many := files{}
	for n := range 4001 {
		many[fmt.Sprintf("f%d", n)] = ""
	}
	for name, c := range map[string]struct {
		tree    files
		limit   int64
		refused int
	}{
		"more files than a batch may have":       {tree: many},
		"a batch that is sent in halves":         {tree: files{"a": strings.Repeat("a", 9<<10), "b": strings.Repeat("b", 9<<10)}, limit: 10 << 10},
		"the last file is refused":               {tree: files{"a": "a", "b": strings.Repeat("b", 20<<10)}, limit: 10 << 10, refused: 1},
		"the last file is refused, and one more": {tree: files{"a": "a", "b": strings.Repeat("b", 20<<10), "c": strings.Repeat("c", 20<<10)}, limit: 10 << 10, refused: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, countFiles)
			limited := func(*http.Request) fault { return fault{limit: c.limit} }
			w.fault.Store(&limited)
			write(t, w.dir, c.tree)
			got := w.starts(func() {
				if r := w.mustSync(nil); len(r.Refused) != c.refused {
					t.Errorf("refused: %v", r.Refused)
				}
			})
			if diff := cmp.Diff([]string{"0", strconv.Itoa(len(c.tree) - c.refused)}, got); diff != "" {
				t.Errorf("the files at each start (-want +got):\n%s", diff)
			}
		})
	}
}

// A directory that is tidied away is a batch too, and not the one that the app waits for.
func TestARefusedLastFileAndATidiedDirectoryStillRestartTheApp(t *testing.T) {
	w := newWorld(t, countFiles)
	limited := func(*http.Request) fault { return fault{limit: 10 << 10} }
	w.fault.Store(&limited)
	auto := func(o *devsync.Options) { o.Restart = "auto" }
	got := w.starts(
		func() {
			write(t, w.dir, files{"1/x": "x"})
			w.mustSync(auto)
		},
		func() {
			write(t, w.dir, files{"1": "-", "a": "a", "b": "b", "c": strings.Repeat("c", 20<<10)})
			w.mustSync(auto)
		},
	)
	if diff := cmp.Diff([]string{"0", "1", "2"}, got); diff != "" {
		t.Errorf("the files at each start (-want +got):\n%s", diff)
	}
}

// countFiles is an app that prints how many files and directories lie in the workspace, and ends
// with its runner.
const countFiles = "SANDBAR_START_COMMAND=ls | wc -l; while kill -0 $PPID; do sleep 1; done"

// starts takes one step after each start of the app, and returns what it printed at each.
func (w *world) starts(steps ...func()) (printed []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for e, err := range w.instance.Logs(ctx, client.LogOptions{Follow: true}) {
		if err != nil {
			w.t.Fatalf("after %q: %v", printed, err)
		}
		if e.Type != client.LogOutput {
			continue
		}
		if printed = append(printed, strings.TrimSpace(string(e.Record.Data))); len(printed) > len(steps) {
			break
		}
		steps[len(printed)-1]()
	}
	return printed
}

// A home folder has the cache folder in it, with what the engine keeps of the home folder.
func TestWhatTheEngineKeepsIsNotSynced(t *testing.T) {
	w := newWorld(t)
	state := func(o *devsync.Options) { o.StateDir = filepath.Join(w.dir, "cache", "sync") }
	write(t, w.dir, files{"a": "a", "cache/other": "b"})
	w.mustSync(state)
	if r := w.mustSync(state); r.Sent != 0 {
		t.Errorf("%d files were sent again", r.Sent)
	}
	if diff := cmp.Diff(files{"a": "a", "cache/other": "b"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// What comes from the sandbox is chosen by whoever runs code there.
func TestNamesFromTheSandboxStayInTheDirectory(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	w.mustSync(twoWay)
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, w.workspace, files{
		".git/hooks/pre-commit": "evil*", ".hg/hgrc": "evil", "sub/.jj/repo/config.toml": "evil", ".HG/hgrc": "evil", "sub/.GIT/config": "evil", "sub/.g\u200cit/config": "evil", ".git ": "evil",
		"abs": "-> " + outside, "up": "-> ../outside", "ok": "-> a", "x/y": "-> ../../outside", "git~1/config": "evil",
		// Each leads inside by its text alone. Followed one behind the other, they lead to outside.
		"d/e/top": "-> ../..", "d/e/climbs": "-> top/../../outside",
	})
	r := w.mustSync(twoWay)
	if diff := cmp.Diff(files{"a": "a", "ok": "-> a", "d/e/top": "-> ../.."}, read(t, w.dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 || len(r.Refused) < 5 {
		t.Errorf("outside: %v, refused: %v", entries, r.Refused)
	}
}

// A program in the sandbox took the line "secret.json" out of .gitignore, and got secret.json a moment later.
func TestNoRuleOfTheSandboxHasMoreSentThanBefore(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"a line is gone":        func(w *world) { write(t, w.workspace, files{".gitignore": "# nothing\n"}) },
		"an exception is added": func(w *world) { write(t, w.workspace, files{".gitignore": "secret.json\n!secret.json\n"}) },
		"the file is gone": func(w *world) {
			if err := os.Remove(filepath.Join(w.workspace, ".gitignore")); err != nil {
				t.Fatal(err)
			}
		},
		"it is a symlink": func(w *world) {
			if err := os.Remove(filepath.Join(w.workspace, ".gitignore")); err != nil {
				t.Fatal(err)
			}
			write(t, w.workspace, files{".gitignore": "-> a"})
		},
		"a file of this program's own": func(w *world) { write(t, w.workspace, files{".sandbarignore": "!secret.json\n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(t, w.dir, files{"a": "a", ".gitignore": "secret.json\n", "secret.json": "TOPSECRET"})
			w.mustSync(twoWay)
			change(w)
			for range 2 {
				r := w.mustSync(twoWay)
				if len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Reason, "files that are ignored here would be sent") {
					t.Errorf("refused: %v", r.Refused)
				}
			}
			if got := read(t, w.workspace)["secret.json"]; got != "" {
				t.Errorf("the sandbox has %q", got)
			}
			if got := read(t, w.dir)[".gitignore"]; got != "secret.json\n" {
				t.Errorf("the directory's rules are %q", got)
			}
		})
	}
	t.Run("until a person brings it", func(t *testing.T) {
		w := newWorld(t)
		write(t, w.dir, files{".gitignore": "secret.json\n", "secret.json": "no secret"})
		w.mustSync(twoWay)
		write(t, w.workspace, files{".gitignore": "# nothing\n"})
		w.mustSync(func(o *devsync.Options) { twoWay(o); o.Prefer = devsync.Remotes })
		if got := read(t, w.dir)[".gitignore"]; got != "# nothing\n" {
			t.Errorf("the directory's rules are %q", got)
		}
	})
	t.Run("more is ignored at once", func(t *testing.T) {
		w := newWorld(t)
		write(t, w.dir, files{".gitignore": "secret.json\n"})
		w.mustSync(twoWay)
		write(t, w.workspace, files{".gitignore": "node_modules\nsecret.json\n"})
		w.mustSync(twoWay)
		if diff := cmp.Diff(files{".gitignore": "node_modules\nsecret.json\n"}, read(t, w.dir)); diff != "" {
			t.Errorf("the directory (-want +got):\n%s", diff)
		}
	})
}

func TestWhatTheSandboxCannotNameIsCounted(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a"})
	write(t, w.workspace, files{"a\x1b[31mred": "x", "a\\b": "x", "fine": "x"})
	var told []string
	counts := func(change func(*devsync.Options)) func(*devsync.Options) {
		return func(o *devsync.Options) {
			change(o)
			o.OnEvent = func(e devsync.Event) {
				if e.Type == devsync.EventNote {
					told = append(told, e.Reason)
				}
			}
		}
	}
	w.mustSync(counts(func(*devsync.Options) {}))
	if len(told) > 0 {
		t.Errorf("one way told %q", told)
	}
	w.mustSync(counts(twoWay))
	if len(told) != 1 || !strings.Contains(told[0], "keeps 2 files or directories to itself") {
		t.Errorf("two ways told %q", told)
	}
	if diff := cmp.Diff(files{"a": "a", "fine": "x"}, read(t, w.dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

func TestOnlyOneProcessSyncsAPair(t *testing.T) {
	w := newWorld(t)
	e, err := devsync.Open(w.options())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if other, err := devsync.Open(w.options()); !errors.Is(err, devsync.ErrBusy) {
		t.Errorf("a second engine: %v, %v", other, err)
	} else if !strings.Contains(err.Error(), fmt.Sprintf("the process %d: end it first", os.Getpid())) {
		t.Errorf("the error does not name the process that has the pair: %v", err)
	}
}

func TestASmallEditOfALargeFileSendsLittle(t *testing.T) {
	w := newWorld(t)
	content := make([]byte, 0, 8<<20)
	for n := 0; len(content) < 8<<20; n++ {
		content = append(content, []byte(strings.Repeat("0123456789abcdef", 3)+string(rune('a'+n%26))+strings.Repeat("z", n%97)+"\n")...)
	}
	write(t, w.dir, files{"big": string(content)})
	w.mustSync(nil)
	w.sent.Store(0)
	middle := len(content) / 2
	write(t, w.dir, files{"big": string(content[:middle]) + "one more line\n" + string(content[middle:])})
	r := w.mustSync(nil)
	if read(t, w.workspace)["big"] != read(t, w.dir)["big"] {
		t.Error("the file did not arrive as it is")
	}
	if sent := w.sent.Load(); sent > 200<<10 || r.Bytes > 200<<10 {
		t.Errorf("%d bytes travelled, %d of them content, for one line", sent, r.Bytes)
	}
	w.sent.Store(0)
	if err := os.Rename(filepath.Join(w.dir, "big"), filepath.Join(w.dir, "moved")); err != nil {
		t.Fatal(err)
	}
	w.mustSync(nil)
	if sent := w.sent.Load(); sent > 2<<10 || read(t, w.workspace)["moved"] != read(t, w.dir)["moved"] {
		t.Errorf("%d bytes travelled for a rename", sent)
	}
}

// restless is a workspace that is never as it was a moment ago.
type restless struct {
	devsync.Remote
	calm *atomic.Bool
}

func (r restless) Apply(ctx context.Context, restart string, write func(*syncwire.Encoder) error) (*devsync.Applied, error) {
	if !r.calm.Load() {
		return nil, &devsync.RemoteError{Kind: devsync.Stale, Message: "it is not what was expected"}
	}
	return r.Remote.Apply(ctx, restart, write)
}

func TestASyncThatComesToNoEndIsNoSuccess(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "1", "b": "2"})
	calm := new(atomic.Bool)
	moving := func(o *devsync.Options) { o.Remote = restless{o.Remote, calm} }
	_, err := w.sync(moving)
	var unsettled *devsync.UnsettledError
	if !errors.As(err, &unsettled) || !slices.Equal(unsettled.Paths, []string{"a", "b"}) || !strings.Contains(err.Error(), `"a" "b"`) {
		t.Errorf("it says %v", err)
	}
	x := w.beginWatch(moving)
	before := x.await(func(e devsync.Event) bool {
		return e.Type == devsync.EventUnsettled && strings.Contains(e.Reason, "not in sync after 20 rounds")
	})
	if slices.ContainsFunc(before, settled) {
		t.Errorf("it was told to be in sync before it was: %+v", before)
	}
	calm.Store(true)
	x.await(settled)
	x.alike("after the workspace came to rest")
}
