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
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// victim is what lies outside of the volume.
var victim = image{"dir/secret": {content: "kept", mode: 0o640}, "dir": {dir: true, mode: 0o711}, "copy-up/inside": {content: "kept"}, "state/copied": {content: "kept"}}

// Another container of the pod has exchanged a directory or a file of the volume for a symlink that leads out of it.
func TestSymlinksOnTheVolumeAreNotFollowed(t *testing.T) {
	for name, lay := range map[string]func(volume, outside string) error{
		"the runner's directory": func(v, o string) error { return os.Symlink(o, v+"/.sandbar") },
		"the staging directory": func(v, o string) error {
			return errFirst(os.Mkdir(v+"/.sandbar", 0o700), os.Symlink(o+"/copy-up", v+"/.sandbar/copy-up"))
		},
		"inside of the staging directory": func(v, o string) error {
			return errFirst(os.MkdirAll(v+"/.sandbar/copy-up", 0o700), os.Symlink(o+"/dir", v+"/.sandbar/copy-up/dir"))
		},
		"the state": func(v, o string) error {
			return errFirst(os.Mkdir(v+"/.sandbar", 0o700), os.Symlink(o+"/state", v+"/.sandbar/state"))
		},
		"the marker": func(v, o string) error {
			return errFirst(os.MkdirAll(v+"/.sandbar/state", 0o700), os.Symlink(o+"/state/copied", v+"/.sandbar/state/copied.new"))
		},
		"the workspace": func(v, o string) error { return os.Symlink(o+"/dir", v+"/.sandbar-workspace") },
	} {
		t.Run(name, func(t *testing.T) {
			source, volume := folders(t)
			outside := t.TempDir()
			victim.make(t, outside)
			image{"file": {content: "x"}}.make(t, source)
			must(t, lay(volume, outside))
			before := describe(t, outside)
			r := Run(t.Context(), Options{Source: source, Target: volume})
			if diff := cmp.Diff(before, describe(t, outside)); diff != "" {
				t.Errorf("%s, and outside of the volume (-before +after):\n%s", r.Reason, diff)
			}
			if r.Reason != copywire.Copied && r.Reason != copywire.CopyFailed {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func errFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Each directory and each file of the copy is exchanged, the moment that it is there, for a symlink that leads out of the
// volume, or for a FIFO.
func TestWhatIsExchangedWhileItIsCopiedIsNotWrittenThrough(t *testing.T) {
	m := image{"file": {content: "x"}, "name": {same: "file"}, "link": {symlink: "file"}}
	for i := range 20 {
		m[fmt.Sprintf("dir/sub-%d/file", i)] = entry{content: strings.Repeat("x", 1000*i), mode: 0o777}
	}
	for name, exchange := range map[string]func(path, outside string) error{
		"directories": func(path, outside string) error { return os.Symlink(outside, path) },
		"files":       func(path, outside string) error { return os.Symlink(outside+"/dir/secret", path) },
		"FIFOs":       func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 24 {
				source, volume := quickFolders(t)
				outside := t.TempDir()
				victim.make(t, outside)
				m.make(t, source)
				before := describe(t, outside)
				staging := filepath.Join(volume, ".sandbar", stagingName)
				var once sync.Mutex
				steps := 0
				Run(t.Context(), Options{Source: source, Target: volume, before: func(string) {
					once.Lock()
					defer once.Unlock()
					if steps++; steps%(at+2) != 0 {
						return
					}
					for _, path := range newest(staging) {
						_ = os.Rename(path, filepath.Join(volume, fmt.Sprintf("moved-%d", steps)))
						_ = exchange(path, outside)
					}
				}})
				if diff := cmp.Diff(before, describe(t, outside)); diff != "" {
					t.Fatalf("outside of the volume (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// Symlinks that lead out of the volume wait under the names of all that is going to be copied.
func TestWhatIsPlantedBeforeTheCopyIsNotWrittenThrough(t *testing.T) {
	m := image{"file": {content: "x"}, "name": {same: "file"}, "link": {symlink: "file"}, "dir/file": {content: "y"}, "large": {content: strings.Repeat("x", 1<<20)}}
	for path := range m {
		t.Run(path, func(t *testing.T) {
			source, volume := folders(t)
			outside := t.TempDir()
			victim.make(t, outside)
			m.make(t, source)
			before := describe(t, outside)
			planted := filepath.Join(volume, ".sandbar", stagingName, path)
			r := Run(t.Context(), Options{Source: source, Target: volume, before: func(string) {
				_ = os.Symlink(outside+"/dir/secret", planted) // as soon as the directory is there
			}})
			if r.Reason != copywire.CopyFailed || !strings.Contains(r.Message, "file exists") {
				t.Errorf("got %+v", r)
			}
			if diff := cmp.Diff(before, describe(t, outside)); diff != "" {
				t.Errorf("outside of the volume (-before +after):\n%s", diff)
			}
		})
	}
}

// newest returns one path of each depth below dir.
func newest(dir string) (paths []string) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) == 0 {
			return paths
		}
		last := entries[len(entries)-1]
		dir = filepath.Join(dir, last.Name())
		paths = append([]string{dir}, paths...)
		if !last.IsDir() {
			return paths // nor through what was exchanged before
		}
	}
}

func TestWhatTheUserCannotReadIsListedAndTheRestIsCopied(t *testing.T) {
	program, user := podUser(t)
	dir := publicDir(t)
	source, volume := filepath.Join(dir, "app"), filepath.Join(dir, "volume")
	must(t, os.Mkdir(source, 0o755))
	must(t, os.Mkdir(volume, 0o777))
	must(t, os.Chmod(volume, 0o777))
	m := image{
		"file": {content: "x"}, "run": {content: "x", mode: 0o755}, "shut": {dir: true, shut: true}, "names": {dir: true, shut: true},
		"first": {content: "y", shut: true}, "second": {same: "first"}, "large": {content: strings.Repeat("x", 1<<20), shut: true},
	}
	for i := range 30 {
		m[fmt.Sprintf("secrets/key-%02d", i)] = entry{content: "k", shut: true}
	}
	if user != nil { // the names of another user's directory can be listed without the right to look at them
		m["names"] = entry{dir: true, mode: 0o744}
		m["names/one"] = entry{content: "x"}
		m["theirs"] = entry{content: "x", mode: 0o004}
		m["open"], m["open/file"] = entry{dir: true, mode: 0o005}, entry{content: "x"}
	}
	m.make(t, source)
	t.Cleanup(func() { _ = os.Chmod(source+"/shut", 0o755); _ = os.Chmod(source+"/names", 0o755) })
	r, _ := runChild(t, program, child{Source: source, Target: volume}, user)
	if r.Reason != copywire.Copied || r.Unreadable != 35 || len(r.UnreadablePaths) != copywire.MaxListed || r.Reason.ExitCode() != 0 {
		t.Errorf("got %+v", r)
	}
	if !strings.Contains(r.Message, "could not read 35") {
		t.Errorf("the message is %q", r.Message)
	}
	var got []string
	for path, line := range copied(t, volume) {
		if path == "theirs" && !strings.HasPrefix(line, "100404 ") || path == "open" && !strings.HasPrefix(line, "40505 ") {
			t.Errorf("the user cannot read its copy of %s: %s", path, line)
		}
		if path != "." && path != "names" && path != "theirs" && path != "open" {
			got = append(got, path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, withoutRoot(user, "file", "open/file", "run", "secrets")) {
		t.Errorf("got %q", got)
	}
	checkOwner(t, volume, user)
}

// withoutRoot leaves out what only root can put into the image.
func withoutRoot(user *syscall.Credential, paths ...string) []string {
	if user != nil {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "open/file" })
}

// checkOwner checks that all is the user's.
func checkOwner(t *testing.T, volume string, user *syscall.Credential) {
	t.Helper()
	if user == nil {
		return
	}
	for path := range maps.Keys(copied(t, volume)) {
		info, err := os.Lstat(filepath.Join(volume, ".sandbar-workspace", path))
		must(t, err)
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != user.Uid {
			t.Errorf("%s is not the user's: %+v", path, info.Sys())
		}
	}
}
