// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

func TestACopyHasWhatTheImageHas(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 200_000)
	for name, m := range map[string]image{
		"nothing": {},
		"modes of files": {
			"plain": {content: "a"}, "run": {content: "#!/bin/sh", mode: 0o755}, "read": {content: "r", mode: 0o444},
			"group": {content: "g", mode: 0o664}, "all": {content: "x", mode: 0o777}, "own": {content: "o", mode: 0o600}, "empty": {},
		},
		"modes of directories": {
			"plain/a": {content: "a"}, "read": {dir: true, mode: 0o555}, "read/deep": {dir: true, mode: 0o500}, "read/deep/b": {content: "b"},
			"own": {dir: true, mode: 0o700}, "empty": {dir: true}, "all": {dir: true, mode: 0o777}, "sticky": {dir: true, mode: 0o777 | unix.S_ISVTX},
		},
		"symbolic links": {
			"file": {content: "f"}, "relative": {symlink: "file"}, "sub/up": {symlink: "../file"}, "absolute": {symlink: "/etc/passwd"},
			"dangling": {symlink: "nowhere"}, "loop": {symlink: "loop"}, "out": {symlink: "../../../.."}, "long": {symlink: strings.Repeat("x/", 2000)},
			"dir": {symlink: "sub"},
		},
		"hard links": {
			"a/first": {content: "one", mode: 0o755}, "b/second": {same: "a/first"}, "third": {same: "a/first"},
			"c": {dir: true, mode: 0o555}, "c/first": {content: large}, "d/second": {same: "c/first"},
		},
		"large files": {"large": {content: large}, "edge": {content: large[:smallBytes]}, "above": {content: large[:smallBytes+1]}},
		"names": {
			"with space": {content: "1"}, "with\nline": {content: "2"}, "\xff\xfe": {content: "3"}, "-rf": {content: "4"}, ".hidden": {content: "5"},
			".sandbar/inside": {content: "6"}, ".sandbar-workspace/inside": {content: "7"}, strings.Repeat("n", 255): {content: "8"}, "*": {dir: true},
		},
		"holes": {
			"end": {content: "x", holes: 8 << 20}, "only": {holes: 8 << 20}, "small": {content: "x", holes: 64 << 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			m.make(t, source)
			want := describe(t, source)
			r := run(t, Options{Source: source, Target: volume}, copywire.Copied, "copied", source)
			if diff := cmp.Diff(want, copied(t, volume)); diff != "" {
				t.Errorf("-image +copy:\n%s", diff)
			}
			if diff := cmp.Diff(want, describe(t, source)); diff != "" {
				t.Errorf("the image has changed (-before +after):\n%s", diff)
			}
			files := 0
			for _, line := range want {
				if line[0] == '1' {
					files++
				}
			}
			if r.Files != int64(files) || r.Skipped != 0 || r.Unreadable != 0 {
				t.Errorf("got %+v, want %d files", r, files)
			}
		})
	}
}

func TestHolesTakeNoSpace(t *testing.T) {
	source, volume := folders(t)
	image{"sparse": {content: "x", holes: 64 << 20}}.make(t, source)
	r := run(t, Options{Source: source, Target: volume}, copywire.Copied)
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(volume, workspace.TreeName, "sparse"), &st))
	if st.Size != 64<<20 || st.Blocks*diskBlock > 1<<20 || r.Bytes > 1<<20 {
		t.Errorf("%d bytes, of which %d take space, and %d were copied", st.Size, st.Blocks*diskBlock, r.Bytes)
	}
}

// A program that was installed to run as another user must not do so as the user of the pod.
func TestSetIDBitsAreDropped(t *testing.T) {
	source, volume := folders(t)
	image{
		"user": {content: "x", mode: 0o755 | unix.S_ISUID}, "group": {content: "x", mode: 0o755 | unix.S_ISGID},
		"linked": {same: "user"}, "dir": {dir: true, mode: 0o775 | unix.S_ISGID},
	}.make(t, source)
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	for path, line := range copied(t, volume) {
		if mode, _, _ := strings.Cut(line, " "); mode != "100755" && mode != "40775" && path != "." {
			t.Errorf("%s has the mode %s", path, mode)
		}
	}
}

// By it Kubernetes keeps what is made on a volume in the group of the pod (fsGroup).
func TestDirectoriesKeepTheGroupBitOfTheVolume(t *testing.T) {
	source, volume := folders(t)
	image{"dir": {dir: true}, "dir/file": {content: "x"}}.make(t, source)
	must(t, unix.Chmod(volume, 0o775|unix.S_ISGID))
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	for path, want := range map[string]string{".": "42755 ", "dir": "42755 ", "dir/file": "100644 "} {
		if line := copied(t, volume)[path]; !strings.HasPrefix(line, want) {
			t.Errorf("%s is %s, want %s", path, line, want)
		}
	}
}

func TestWhatIsNotAFileIsLeftOutAndCounted(t *testing.T) {
	source, volume := folders(t)
	m := image{"file": {content: "x"}, "fifo": {special: unix.S_IFIFO}, "dir/socket": {special: unix.S_IFSOCK}}
	if os.Getuid() == 0 {
		m["null"] = entry{special: unix.S_IFCHR}
	}
	m.make(t, source)
	r := run(t, Options{Source: source, Target: volume}, copywire.Copied, fmt.Sprintf("left out %d sockets, FIFOs, devices and mounts", len(m)-1))
	if got := slices.Sorted(maps.Keys(copied(t, volume))); !slices.Equal(got, []string{".", "dir", "file"}) || r.Skipped != int64(len(m)-1) || r.Files != 1 {
		t.Errorf("got %q, %+v", got, r)
	}
}

// The developer's files are worth more than the image's.
func TestASecondCopyChangesNothing(t *testing.T) {
	source, volume := folders(t)
	image{"kept": {content: "1"}, "deleted": {content: "2"}}.make(t, source)
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	tree := filepath.Join(volume, workspace.TreeName)
	must(t, os.WriteFile(filepath.Join(tree, "kept"), []byte("changed"), 0o644))
	must(t, os.Remove(filepath.Join(tree, "deleted")))
	before := describe(t, volume)
	run(t, Options{Source: source, Target: volume}, copywire.AlreadyCopied, "nothing was changed")
	run(t, Options{Source: "/nowhere", Target: volume}, copywire.AlreadyCopied)
	if diff := cmp.Diff(before, describe(t, volume)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	for _, name := range []string{"kept", "deleted"} { // a developer begins again with an empty workspace
		must(t, os.RemoveAll(filepath.Join(tree, name)))
	}
	run(t, Options{Source: source, Target: volume}, copywire.AlreadyCopied)
	if names := namesIn(t, tree); len(names) > 0 {
		t.Errorf("an emptied workspace got %q", names)
	}
}

// What the runner keeps of its own lies beside the workspace, and the marker outlives a runner.
func TestTheRunnerTakesTheCopyForItsWorkspace(t *testing.T) {
	source, volume := folders(t)
	image{"src/main.go": {content: "package main"}, ".gitignore": {content: "bin"}}.make(t, source)
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	if names := namesIn(t, volume); !slices.Equal(names, []string{workspace.StagingName, workspace.TreeName}) {
		t.Errorf("the volume has %q", names)
	}
	w, err := workspace.OpenVolume(volume, workspace.DefaultLimits())
	must(t, err)
	if r := w.Recovered(); r.Moved != 0 || r.Applied || r.Undone {
		t.Errorf("the runner found %+v to repair", r)
	}
	if e, err := w.Describe("src/main.go"); err != nil || e.Size != 12 {
		t.Errorf("the runner finds %+v, %v", e, err)
	}
	w.Close()
	if names := namesIn(t, filepath.Join(volume, workspace.TreeName)); !slices.Equal(names, []string{".gitignore", "src"}) {
		t.Errorf("the workspace has %q", names)
	}
	run(t, Options{Source: source, Target: volume}, copywire.AlreadyCopied)
}

func TestAFreshVolumeIsEmpty(t *testing.T) {
	for name, m := range map[string]image{
		"of ext4":                      {lostAndFound: {dir: true, mode: 0o700}},
		"mounted by subPath":           {workspace.TreeName: {dir: true}},
		"with what a runner has begun": {workspace.StagingName + "/revision": {content: "0"}},
		"with half a copy":             {".sandbar/copy-up/half/way": {content: "x"}, ".sandbar/copy-up/half/shut": {dir: true, mode: 0o500}, ".sandbar/state/copied.new": {content: "co"}},
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			image{"file": {content: "x"}}.make(t, source)
			m.make(t, volume)
			run(t, Options{Source: source, Target: volume}, copywire.Copied)
			if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
				t.Errorf("-image +copy:\n%s", diff)
			}
			if _, err := os.Lstat(filepath.Join(volume, ".sandbar", stagingName)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the staging directory is left: %v", err)
			}
		})
	}
}

func TestAVolumeWithFilesIsRefusedAndKept(t *testing.T) {
	for name, m := range map[string]image{
		"a file":                      {"mine": {content: "x"}},
		"a directory":                 {"mine": {dir: true}},
		"a hidden file":               {".mine": {content: "x"}},
		"a workspace":                 {workspace.TreeName + "/mine": {content: "x"}},
		"a marker that is not a file": {workspace.TreeName + "/mine": {content: "x"}, ".sandbar/state/copied": {dir: true}},
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			image{"file": {content: "x"}}.make(t, source)
			m.make(t, volume)
			before := describe(t, volume)
			if r := run(t, Options{Source: source, Target: volume}, copywire.TargetNotEmpty, "mine", "none was changed"); r.Reason.ExitCode() != 4 {
				t.Errorf("the exit code is %d", r.Reason.ExitCode())
			}
			if diff := cmp.Diff(before, describe(t, volume)); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotADirectoryOfAnAppIsRefused(t *testing.T) {
	source, volume := folders(t)
	image{"file": {content: "x"}, "root": {symlink: "/"}, "proc": {symlink: "/proc/self"}, "nowhere": {symlink: "gone"}}.make(t, source)
	for path, words := range map[string]string{
		"relative":           "is not an absolute path",
		"":                   "is not an absolute path",
		source + "/gone":     "does not exist in the image",
		source + "/nowhere":  "does not exist in the image",
		source + "/file":     "is not a directory",
		source + "/file/sub": "is not a directory",
		"/":                  "is the whole image",
		"/..":                "is the whole image",
		source + "/root":     "is the whole image",
		"/proc":              "is the kernel's (proc)",
		"/proc/self/fd":      "is the kernel's (proc)",
		source + "/proc":     "is the kernel's (proc)",
		"/sys":               "is the kernel's (sysfs)",
		volume:               "is the volume that it would be copied to",
	} {
		t.Run(strings.TrimPrefix(path, source), func(t *testing.T) {
			if r := run(t, Options{Source: path, Target: volume}, copywire.InvalidSource, path+" "+words); r.Reason.ExitCode() != 5 {
				t.Errorf("the exit code is %d", r.Reason.ExitCode())
			}
			if names := namesIn(t, volume); len(names) > 0 {
				t.Errorf("the volume has %q", names)
			}
		})
	}
}

func TestAVolumeThatIsNotThereIsAnError(t *testing.T) {
	source, volume := folders(t)
	image{"file": {content: "x"}}.make(t, volume)
	for _, path := range []string{volume + "/gone", volume + "/file"} {
		run(t, Options{Source: source, Target: path}, copywire.CopyFailed, "opening the volume "+path)
	}
}

func TestATreeAboveALimitIsRefusedBeforeAnythingIsCopied(t *testing.T) {
	m := image{
		"a/b/c/file": {content: "x"}, "one": {content: "x"}, "two": {same: "one"}, "three": {same: "one"}, "link": {symlink: "somewhere"},
	}
	for name, test := range map[string]struct {
		change func(l *Limits, by int)
		least  int // the limit at which it is copied
		words  string
	}{
		"files":   {func(l *Limits, n int) { l.Entries = int64(n) }, 8, "it has more than 7 files and directories"},
		"linked":  {func(l *Limits, n int) { l.Linked = int64(n) }, 3, "it has more than 2 names of files with several names (hard links)"},
		"depth":   {func(l *Limits, n int) { l.Depth = n }, 3, "\"a/b/c\" lies below more than 2 directories"},
		"paths":   {func(l *Limits, n int) { l.PathBytes = n }, 10, "the path of \"file\" has more than 9 bytes"},
		"targets": {func(l *Limits, n int) { l.TargetBytes = n }, 9, "the target of the symbolic link \"link\" has more than 8 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			m.make(t, source)
			l := DefaultLimits()
			test.change(&l, test.least-1)
			r := run(t, Options{Source: source, Target: volume, Limits: l}, copywire.TreeTooLarge, source+": "+test.words)
			if r.Files != 0 || r.Reason.ExitCode() != 6 {
				t.Errorf("got %+v", r)
			}
			if names := namesIn(t, filepath.Join(volume, ".sandbar", stagingName)); len(names) > 0 {
				t.Errorf("%q were copied", names)
			}
			test.change(&l, test.least)
			run(t, Options{Source: source, Target: volume, Limits: l}, copywire.Copied)
		})
	}
}

// An earlier survey saw a shorter one.
func TestALinkThatHasBecomeTooLongIsRefused(t *testing.T) {
	source, volume := folders(t)
	image{"dir": {dir: true}, "dir/link": {symlink: "short"}}.make(t, source)
	l := DefaultLimits()
	l.TargetBytes = 10
	run(t, Options{Source: source, Target: volume, Limits: l, before: func(step string) {
		if _, err := os.Lstat(filepath.Join(volume, ".sandbar", stagingName)); step == "mkdir" && err == nil {
			must(t, os.Remove(filepath.Join(source, "dir/link")))
			must(t, os.Symlink("longer than ten", filepath.Join(source, "dir/link")))
		}
	}}, copywire.TreeTooLarge, "\"dir/link\" has more than 10 bytes")
}

// The volume of the pod may be mounted below the directory that is copied, in the image's own file system.
func TestTheVolumeBelowTheSourceIsLeftOut(t *testing.T) {
	source, _ := folders(t)
	image{"file": {content: "x"}, "sub/volume": {dir: true}, "sub/other": {content: "y"}}.make(t, source)
	volume := filepath.Join(source, "sub/volume")
	r := run(t, Options{Source: source, Target: volume}, copywire.Copied)
	if got := slices.Sorted(maps.Keys(copied(t, volume))); !slices.Equal(got, []string{".", "file", "sub", "sub/other"}) {
		t.Errorf("got %q", got)
	}
	if !slices.Equal(r.Mounts, []string{"sub/volume"}) || r.Skipped != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestACopyThatIsToldToEndCanBeginAgain(t *testing.T) {
	source, volume := quickFolders(t)
	m := image{}
	for i := range 50 {
		m[fmt.Sprintf("dir-%d/file", i)] = entry{content: strconv.Itoa(i)}
	}
	m.make(t, source)
	for _, step := range []string{"mkdir", "write", "unlink"} {
		ctx, cancel := context.WithCancel(t.Context())
		r := Run(ctx, Options{Source: source, Target: volume, before: func(s string) {
			if s == step {
				cancel()
			}
		}})
		cancel()
		if r.Reason != copywire.Stopped || r.Reason.ExitCode() != 7 {
			t.Fatalf("%s: got %+v", step, r)
		}
	}
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
		t.Errorf("-image +copy:\n%s", diff)
	}
}

// An image may have its directory for reading alone; the developer's workspace is for writing.
func TestTheWorkspaceCanBeWrittenTo(t *testing.T) {
	source, volume := folders(t)
	image{"read": {dir: true, mode: 0o555}}.make(t, source)
	must(t, os.Chmod(source, 0o555))
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	for path, want := range map[string]string{".": "40755 ", "read": "40555 "} {
		if line := copied(t, volume)[path]; !strings.HasPrefix(line, want) {
			t.Errorf("%s is %s, want %s", path, line, want)
		}
	}
}

// awaitTouched waits until a worker is done with a copy: its last step by the name gives it the time of the original.
func awaitTouched(t *testing.T, file, original string) {
	t.Helper()
	want, err := os.Stat(original)
	must(t, err)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if is, err := os.Stat(file); err == nil && is.ModTime().Equal(want.ModTime()) {
			return
		}
	}
	t.Errorf("%s is never finished", file)
}

// Linux gives a directory no second name, and says so as a file system says that has no hard links.
func TestAFileSystemWithoutHardLinksGetsCopies(t *testing.T) {
	for name, exchange := range map[string]func(path string) error{
		"not permitted": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"gone":          os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			image{"a": {content: "x", mode: 0o755}, "b": {same: "a"}}.make(t, source)
			r := Run(t.Context(), Options{Source: source, Target: volume, before: func(step string) {
				if step == "link" {
					for _, name := range namesIn(t, filepath.Join(volume, ".sandbar", stagingName)) {
						first := filepath.Join(volume, ".sandbar", stagingName, name)
						awaitTouched(t, first, filepath.Join(source, name))
						must(t, exchange(first))
					}
				}
			}})
			if name == "gone" {
				if r.Reason != copywire.CopyFailed {
					t.Errorf("got %+v", r)
				}
				return
			}
			if r.Reason != copywire.Copied || r.Files != 2 {
				t.Fatalf("got %+v", r)
			}
			files := 0
			for _, line := range copied(t, volume) {
				if strings.HasPrefix(line, "100755 ") && !strings.Contains(line, " as ") {
					files++
				}
			}
			if files != 1 {
				t.Errorf("got %q", copied(t, volume))
			}
		})
	}
}

func TestAFileThatHasBecomeSomethingElseIsNotRead(t *testing.T) {
	source, volume := folders(t)
	image{"fifo": {special: unix.S_IFIFO}, "link": {symlink: "fifo"}}.make(t, source)
	from, err := openFolder(source, nil)
	must(t, err)
	defer from.close()
	to, err := openFolder(volume, nil)
	must(t, err)
	defer to.close()
	c := &copier{tally: &tally{}}
	for name, words := range map[string]string{"fifo": "it has become something else", "link": "too many levels of symbolic links"} {
		p, err := c.open(&level{source: from, into: &destination{folder: to}}, name)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	if names := namesIn(t, volume); len(names) > 0 {
		t.Errorf("the volume has %q", names)
	}
}

// No copy has made it.
func TestAHalfCopyThatLiesTooDeepIsAnError(t *testing.T) {
	source, volume := folders(t)
	image{".sandbar/copy-up/1/2/3/4": {content: "x"}}.make(t, volume)
	l := DefaultLimits()
	l.Depth = 2
	run(t, Options{Source: source, Target: volume, Limits: l}, copywire.CopyFailed, "removing what a former copy has left", "lies deeper than a copy goes")
	l.Depth = 3
	run(t, Options{Source: source, Target: volume, Limits: l}, copywire.Copied)
}

// A pod that was given up may still copy when the next one begins.
func TestTwoCopiesAtATimeDoNotMix(t *testing.T) {
	source, volume := folders(t)
	image{"dir/file": {content: "x"}, "other": {content: "y"}}.make(t, source)
	o := Options{Source: source, Target: volume}
	var others atomic.Int64
	first := o
	first.before = func(string) {
		if _, err := os.Lstat(filepath.Join(volume, ".sandbar", stagingName)); err == nil {
			others.Add(1)
			if r := Run(t.Context(), o); r.Reason != copywire.CopyFailed || r.Message != "another copy to the volume is in progress" {
				t.Errorf("another copy ended with %+v", r)
			}
		}
	}
	run(t, first, copywire.Copied)
	if others.Load() < 10 {
		t.Errorf("%d other copies were refused", others.Load())
	}
	if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
		t.Errorf("-image +copy:\n%s", diff)
	}
	run(t, o, copywire.AlreadyCopied)
}

// Trees of all kinds, each made from a number.
func TestAnyTreeIsCopied(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 17))
		source, volume := quickFolders(t)
		randomImage(r).make(t, source)
		run(t, Options{Source: source, Target: volume}, copywire.Copied)
		if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
			t.Fatalf("seed %d: -image +copy:\n%s", seed, diff)
		}
	}
}

func randomImage(r *rand.Rand) image {
	m, dirs, files := image{}, []string{""}, []string(nil)
	for i := range 1 + r.IntN(60) {
		path := dirs[r.IntN(len(dirs))] + fmt.Sprintf("n%d", i)
		switch kind := r.IntN(10); {
		case kind < 3:
			m[path] = entry{dir: true, mode: 0o500 | os.FileMode(r.IntN(0o400))}
			dirs = append(dirs, path+"/")
		case kind == 3:
			m[path] = entry{symlink: strings.Repeat("../", r.IntN(4)) + fmt.Sprintf("n%d", r.IntN(60))}
		case kind == 4 && len(files) > 0:
			m[path] = entry{same: files[r.IntN(len(files))]}
		case kind == 5:
			m[path] = entry{content: "end", holes: int64(r.IntN(1 << 20))}
		default:
			m[path] = entry{content: strings.Repeat(path, r.IntN(1<<r.IntN(15))), mode: 0o400 | os.FileMode(r.IntN(0o400))}
			files = append(files, path)
		}
	}
	return m
}
