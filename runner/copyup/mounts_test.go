// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

func mountTmpfs(t *testing.T, at, options string) {
	t.Helper()
	must(t, unix.Mount("tmpfs", at, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

func TestAVolumeThatIsTooSmallIsRefusedBeforeAnythingIsCopied(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	kept := strings.Repeat("x", 10_000) // three pages
	many := image{}
	for i := range 100 {
		many[fmt.Sprintf("file-%d", i)] = entry{content: kept}
	}
	for name, test := range map[string]struct {
		image   image
		options string
		words   string // "" if it fits
	}{
		"space":                     {many, "size=1m", "are 1.2 MiB, and the volume has 1.0 MiB: ask for a larger volume"},
		"space that suffices":       {many, "size=2m", ""},
		"small files, whole blocks": {small(400), "size=1m", "are 1.6 MiB, and the volume has 1.0 MiB"},
		"inodes":                    {small(50), "size=1m,nr_inodes=40", "has 50 files and directories, and the volume has room for 3"},
		"inodes that suffice":       {small(50), "size=1m,nr_inodes=100", ""},
		"holes":                     {image{"sparse": {content: "x", holes: 64 << 20}}, "size=1m", ""},
		"hard links":                {linked(20, strings.Repeat("x", 200<<10)), "size=1m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			mountTmpfs(t, volume, test.options)
			test.image.make(t, source)
			o := Options{Source: source, Target: volume}
			if test.words == "" {
				run(t, o, copywire.Copied)
				if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
					t.Errorf("-image +copy:\n%s", diff)
				}
				return
			}
			r := run(t, o, copywire.VolumeTooSmall, source, test.words)
			if r.Files != 0 || r.Bytes != 0 || r.Reason.ExitCode() != 3 {
				t.Errorf("got %+v", r)
			}
			if names := namesIn(t, filepath.Join(volume, ".sandbar", stagingName)); len(names) > 0 {
				t.Errorf("%d files were copied", len(names))
			}
		})
	}
}

func TestFilesThatCannotBeReadNeedNoSpace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	if !inOwnMounts(t) {
		return
	}
	program, user := podUser(t)
	dir := publicDir(t)
	source, volume := filepath.Join(dir, "app"), filepath.Join(dir, "volume")
	image{"file": {content: "x"}, "secret": {content: strings.Repeat("x", 2<<20), shut: true}}.make(t, source)
	must(t, os.Mkdir(volume, 0o755))
	mountTmpfs(t, volume, "size=1m,mode=0777")
	if r, _ := runChild(t, program, child{Source: source, Target: volume}, user); r.Reason != copywire.Copied || r.Unreadable != 1 || r.Files != 1 {
		t.Errorf("got %+v", r)
	}
}

func small(n int) image {
	m := image{}
	for i := range n {
		m[fmt.Sprintf("file-%d", i)] = entry{content: "x"}
	}
	return m
}

func linked(n int, content string) image {
	m := image{"file": {content: content}}
	for i := range n {
		m[fmt.Sprintf("name-%d", i)] = entry{same: "file"}
	}
	return m
}

// Something else fills the volume after it was found large enough. A larger one, or room in this one, helps.
func TestAVolumeThatFillsUpMeanwhileIsToldSo(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	for name, content := range map[string]string{"small files": "x", "large files": strings.Repeat("x", 300<<10)} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			mountTmpfs(t, volume, "size=4m")
			m := image{}
			for i := range 10 {
				m[fmt.Sprintf("dir-%d/file", i)] = entry{content: content}
			}
			m.make(t, source)
			filler := filepath.Join(volume, "filler")
			files := 0
			r := run(t, Options{Source: source, Target: volume, before: func(step string) {
				if step == "mkdir" {
					if files++; files == 6 {
						_ = os.WriteFile(filler, make([]byte, 5<<20), 0o644) // until the volume is full
					}
				}
			}}, copywire.VolumeTooSmall, "and the volume was full after", "no space left on device", "ask for a larger volume")
			if r.Files == 10 {
				t.Errorf("got %+v", r)
			}
			must(t, os.Remove(filler))
			run(t, Options{Source: source, Target: volume}, copywire.Copied)
			if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
				t.Errorf("-image +copy:\n%s", diff)
			}
		})
	}
}

// A volume of the pod, or a file of a ConfigMap, below the directory that is copied is not the image's. The second mount is
// of the image's own file system, and has its device.
func TestMountsBelowTheSourceAreLeftOut(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	source, volume := folders(t)
	image{"file": {content: "x"}, "data": {dir: true}, "sub/same": {dir: true}, "config": {content: "y"}, "other/inside": {content: "z"}}.make(t, source)
	mountTmpfs(t, filepath.Join(source, "data"), "size=1m")
	must(t, os.WriteFile(filepath.Join(source, "data/inside"), []byte("not the image's"), 0o644))
	for at, from := range map[string]string{"sub/same": "other", "config": "other/inside"} {
		must(t, unix.Mount(filepath.Join(source, from), filepath.Join(source, at), "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(filepath.Join(source, at), unix.MNT_DETACH) })
	}
	r := run(t, Options{Source: source, Target: volume}, copywire.Copied, "left out 3")
	if got := slices.Sorted(maps.Keys(copied(t, volume))); !slices.Equal(got, []string{".", "file", "other", "other/inside", "sub"}) {
		t.Errorf("got %q", got)
	}
	slices.Sort(r.Mounts)
	if !slices.Equal(r.Mounts, []string{"config", "data", "sub/same"}) || r.Skipped != 3 {
		t.Errorf("got %+v", r)
	}
}

// The volume is another file system than the image, where the kernel does not share blocks.
func TestLargeFilesAreCopiedBetweenFileSystems(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	source, volume := folders(t)
	mountTmpfs(t, volume, "size=32m")
	image{"large": {content: strings.Repeat("0123456789abcdef", 500_000)}, "sparse": {content: strings.Repeat("z", 1<<20), holes: 64 << 20}}.make(t, source)
	run(t, Options{Source: source, Target: volume}, copywire.Copied)
	if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
		t.Errorf("-image +copy:\n%s", diff)
	}
}

// The controller may mount the workspace beside the volume, where the rename cannot take its place.
func TestAWorkspaceThatIsMountedIsToldSo(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	source, volume := folders(t)
	image{"file": {content: "x"}}.make(t, source)
	tree := filepath.Join(volume, workspace.TreeName)
	must(t, os.Mkdir(tree, 0o755))
	must(t, unix.Mount(tree, tree, "", unix.MS_BIND, ""))
	run(t, Options{Source: source, Target: volume}, copywire.CopyFailed, "is mounted in this container")
	must(t, unix.Unmount(tree, 0))
	// The marker is there, and the next try has only the rename to do.
	run(t, Options{Source: "/gone", Target: volume}, copywire.AlreadyCopied)
	if diff := cmp.Diff(describe(t, source), copied(t, volume)); diff != "" {
		t.Errorf("-image +copy:\n%s", diff)
	}
}
