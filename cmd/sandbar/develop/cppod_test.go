// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"archive/tar"
	"bytes"
	"context"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestCopyToAndFromAPodOfAnyImage(t *testing.T) {
	w := newWorld(t)
	there, dir := t.TempDir(), t.TempDir()
	w.Pod(t, there, clitest.Programs(t, "tar"))
	long := strings.Repeat("long/", 50) + "name"
	tree := map[string]string{
		"p/a": "a", "p/run.sh": "+run", "p/d/e/f": strings.Repeat("\x00\xff\n", 100_000), "p/empty/": "", "p/link": "-> d/e/f", "p/-rf": "x",
		"p/dotted": "-> ./a", "p/slashed": "-> d/",
		"p/ü \"'$x": "quoted", "p/" + long: "long",
	}
	clitest.Plant(t, dir, tree)
	if err := os.Link(filepath.Join(dir, "p/a"), filepath.Join(dir, "p/second")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"cp", filepath.Join(dir, "p"), "web:" + there + "/q/r"},  // absolute
		{"cp", filepath.Join(dir, "p"), "web:sub/", "-c", "main"}, // relative to the working directory
		{"cp", "web:" + there + "/q/r", filepath.Join(dir, "exact")},
		{"cp", "web:sub/p/", dir + "/back/"},
	} {
		if strings.HasSuffix(args[2], "/back/") {
			if err := os.Mkdir(args[2], 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if code, stdout, stderr := w.Run(t, args...); code != 0 || stdout != "" {
			t.Fatalf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	want := clitest.TreeText(t, filepath.Join(dir, "p"))
	for _, at := range []string{filepath.Join(there, "q/r"), filepath.Join(there, "sub/p"), filepath.Join(dir, "exact"), filepath.Join(dir, "back/p")} {
		if diff := cmp.Diff(want, clitest.TreeText(t, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
	if code, stdout, stderr := w.Run(t, "cp", "web:sub/p/-rf", "-"); code != 0 || stdout != "x" {
		t.Errorf("one file: exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "p/run.sh"), "web:new/dir/file"); code != 0 || clitest.ContentOf(there, "new/dir/file") != "run" {
		t.Errorf("one file: exit code %d, %q", code, stderr)
	}
	code, _, stderr := w.Run(t, "cp", "web:none", filepath.Join(dir, "none"))
	if code != cli.ExitFailure || !strings.Contains(stderr, "tar in the sandbox exited with code 2") || !strings.Contains(stderr, "No such file") {
		t.Errorf("what is not there: exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a copy that failed left a file")
	}
}

func TestCopyToAPodLeavesOutWhatWouldLeadAwayAndSaysSo(t *testing.T) {
	w := newWorld(t)
	there, dir := t.TempDir(), t.TempDir()
	w.Pod(t, there, clitest.Programs(t, "tar"))
	clitest.Plant(t, dir, map[string]string{"p/a": "a", "p/out": "-> ../../secret", "p/root": "-> /etc/passwd"})
	code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "p"), "web:p")
	if code != cli.ExitFailure || strings.Count(stderr, "left out ") != 2 || !strings.Contains(stderr, "2 entries were left out") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if diff := cmp.Diff(map[string]string{"p/": "", "p/a": "a"}, clitest.TreeText(t, there)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCopyWithoutTarTakesSingleFilesByCat(t *testing.T) {
	w := newWorld(t)
	there, dir := t.TempDir(), t.TempDir()
	clitest.Plant(t, dir, map[string]string{"run.sh": "+run", "p/a": "a"})
	clitest.Plant(t, there, map[string]string{"d/x": "\x00x", "d/tool": "+tool"})
	w.Pod(t, there, clitest.Programs(t, "sh", "cat", "wc", "mv", "rm", "chmod", "mkdir", "dirname"))
	for _, args := range [][]string{{"cp", filepath.Join(dir, "run.sh"), "web:new/run"}, {"cp", "web:d/x", filepath.Join(dir, "x")}, {"cp", "web:d/tool", filepath.Join(dir, "tool")}} {
		if code, _, stderr := w.Run(t, args...); code != 0 {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	if got := clitest.TreeText(t, dir)["tool"]; got != "+tool" {
		t.Errorf("the program is here %q", got)
	}
	if got := clitest.TreeText(t, there)["new/run"]; got != "+run" || clitest.ContentOf(dir, "x") != "\x00x" {
		t.Errorf("there is %q, here %q", got, clitest.ContentOf(dir, "x"))
	}
	for _, args := range [][]string{{"cp", filepath.Join(dir, "p"), "web:p"}, {"cp", "web:", dir}} {
		if code, _, stderr := w.Run(t, args...); code != cli.ExitFailure || !strings.Contains(stderr, "the image has no tar, which a directory needs: copy its files one by one") {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	// A shell that is there, and a file in the way that is a directory.
	if code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "run.sh"), "web:d"); code != cli.ExitFailure || !strings.Contains(stderr, "d: a directory is there; delete it first") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	w.Pod(t, there, clitest.Programs(t))
	for _, args := range [][]string{{"cp", filepath.Join(dir, "run.sh"), "web:r"}, {"cp", "web:d/x", filepath.Join(dir, "y")}} {
		if code, _, stderr := w.Run(t, args...); code != cli.ExitFailure || !strings.Contains(stderr, "neither tar nor a shell with cat") || !strings.Contains(stderr, "--container") {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

// GNU tar replaces a symlink by a directory and an empty directory by a file, and exits with 0.
func TestCopyToAPodReplacesNoDirectoryByAFileAndNoSymlinkByADirectory(t *testing.T) {
	tools := []string{"sh", "cat", "wc", "mv", "rm", "chmod", "mkdir", "dirname"}
	for image, bin := range map[string]string{
		"GNU tar": clitest.Programs(t, "tar", "sh"), "busybox tar": busybox(t, "tar", "sh"), "no tar": clitest.Programs(t, tools...), "no tar, busybox": busybox(t, tools...),
	} {
		for name, c := range map[string]struct {
			copied   string
			at       string
			refusal  string // empty if the copy replaces what is there
			needsTar bool
			want     map[string]string // beside what is there
		}{
			"a directory over a symlink to one":      {copied: "p", at: "current", refusal: "current: a file or a symlink is there"},
			"a directory over a symlink deep inside": {copied: "tree", at: "there", refusal: "there/sub: a file or a symlink is there"},
			"a directory over a file":                {copied: "p", at: "file", refusal: "file: a file or a symlink is there"},
			"a file over an empty directory":         {copied: "p/a", at: "empty", refusal: "empty: a directory is there"},
			"two files over directories":             {copied: "two", at: ".", refusal: "empty: a directory is there; delete it first, or in the same batch, to replace it; 1 more paths conflict"},
			"a file over a symlink to a directory":   {copied: "p/a", at: "current", want: map[string]string{"current": "new"}},
			"a directory over a directory":           {copied: "p", at: "releases/1", needsTar: true, want: map[string]string{"releases/1/a": "new"}},
			"a file below a file":                    {copied: "p/a", at: "file/x/y", refusal: "file: a directory of the path is a symlink or a file"},
			"a file below a symlink to nothing":      {copied: "p/a", at: "nothing/x", refusal: "nothing: a directory of the path is a symlink or a file"},
			"a directory below a symlink":            {copied: "p", at: "current/p", needsTar: true, want: map[string]string{"releases/1/p/": "", "releases/1/p/a": "new"}},
			"into a symlink, named as one":           {copied: "p/a", at: "current/", want: map[string]string{"releases/1/a": "new"}},
			"what is below a symlink":                {copied: "p/a", at: "current/sub/b", want: map[string]string{"releases/1/sub/": "", "releases/1/sub/b": "new"}},
		} {
			t.Run(image+": "+name, func(t *testing.T) {
				w, there, dir := newWorld(t), t.TempDir(), t.TempDir()
				w.Pod(t, there, bin)
				clitest.Plant(t, dir, map[string]string{"p/a": "new", "tree/sub/x": "new", "two/empty": "new", "two/releases": "new"})
				clitest.Plant(t, there, map[string]string{
					"releases/1/old": "old", "current": "-> releases/1", "file": "old", "empty/": "", "nothing": "-> releases/2", "there/sub": "-> ../releases", "there/x": "old",
				})
				want := clitest.TreeText(t, there)
				code, _, stderr := w.Run(t, "cp", filepath.Join(dir, c.copied), "web:"+there+"/"+c.at)
				refusal := c.refusal
				if c.needsTar && strings.HasPrefix(image, "no tar") {
					refusal, c.want = "the image has no tar", nil
				}
				if code == 0 != (refusal == "") || !strings.Contains(stderr, refusal) {
					t.Errorf("exit code %d, %q", code, stderr)
				}
				maps.Copy(want, c.want)
				if diff := cmp.Diff(want, clitest.TreeText(t, there)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// busybox makes a directory with programs of busybox, which make fronts installs.
func busybox(t *testing.T, names ...string) string {
	t.Helper()
	at, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed")
	}
	bin := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(at, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Code in the pod chooses what its tar sends: nothing of it may be written outside of the directory
// that the person named, nor through a symlink, nor into a repository's own files, nor make a second
// name of a file of the person.
func TestCopyFromAHostileTarStaysInItsDirectory(t *testing.T) {
	w := newWorld(t)
	top := t.TempDir()
	clitest.Plant(t, top, map[string]string{"secret": "mine", "into/": "", "elsewhere/": ""})
	into := filepath.Join(top, "into", "p")
	clitest.Plant(t, into, map[string]string{"local": "mine", "door": "-> " + filepath.Join(top, "elsewhere"), "inner": "-> local"})
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 4} }
	w.Sends(t, clitest.Archive(t,
		tar.Header{Name: "./p/", Typeflag: tar.TypeDir},
		file("./p/good"),
		file("./p/../../secret"), file("/etc/sandbar-test"), file("../secret"), file("./other"),
		file("./p/.git/hooks/pre-commit"), file("./p/.GIT/config"), file("./p/\x1b[31mred"), file(`./p/back\slash`), file("./p/.sandbar-incoming-x"),
		tar.Header{Name: "./p/out", Typeflag: tar.TypeSymlink, Linkname: "../../secret"},
		tar.Header{Name: "./p/abs", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		tar.Header{Name: "./p/ok", Typeflag: tar.TypeSymlink, Linkname: "good"},
		file("./p/ok/through"), file("./p/door/through"), file("./p/inner/through"),
		tar.Header{Name: "./p/alias", Typeflag: tar.TypeLink, Linkname: "./p/good"},
		tar.Header{Name: "./p/steal", Typeflag: tar.TypeLink, Linkname: "./p/local"},
		tar.Header{Name: "./p/steal2", Typeflag: tar.TypeLink, Linkname: "../secret"},
		tar.Header{Name: "./p/steal3", Typeflag: tar.TypeLink, Linkname: "./p/ok"},
		tar.Header{Name: "./p/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "./p/disk", Typeflag: tar.TypeBlock, Devmajor: 8},
		tar.Header{Name: "./p/pipe", Typeflag: tar.TypeFifo},
		func() tar.Header { h := file("./p/setuid"); h.Mode = 0o6755; return h }(),
	), "0")
	code, _, stderr := w.Run(t, "cp", "web:p", filepath.Join(top, "into"))
	if code != cli.ExitFailure || strings.Contains(stderr, "\x1b") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if n := strings.Count(stderr, "left out "); n != 20 {
		t.Errorf("%d entries are said to be left out: %s", n, stderr)
	}
	want := map[string]string{
		"secret": "mine", "into/": "", "into/p/": "", "into/p/local": "mine", "into/p/door": "-> " + filepath.Join(top, "elsewhere"),
		"into/p/inner": "-> local", "into/p/good": "xxxx", "into/p/ok": "-> good", "into/p/alias": "xxxx", "into/p/setuid": "+xxxx", "elsewhere/": "",
	}
	if diff := cmp.Diff(want, clitest.TreeText(t, top)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(into, "setuid")); err != nil || info.Mode() != 0o755 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat("/etc/sandbar-test"); err == nil {
		t.Error("a file was written to /etc")
	}
}

func TestCopyFromATarThatIsNotWholeSaysSo(t *testing.T) {
	w := newWorld(t)
	good := clitest.Archive(t, tar.Header{Name: "./p", Typeflag: tar.TypeReg, Size: 4000})
	for name, c := range map[string]struct {
		archive []byte
		code    string
		want    string
	}{
		"cut inside a file":       {good[:2000], "0", "unexpected EOF"},
		"tar failed":              {good, "1", `tar in the sandbox exited with code 1: tar: it`},
		"something else":          {clitest.Archive(t, tar.Header{Name: "./q", Typeflag: tar.TypeReg, Size: 4}), "0", "something else than was asked for"},
		"more than the file":      {clitest.Archive(t, tar.Header{Name: "./p", Typeflag: tar.TypeReg, Size: 4}, tar.Header{Name: "./p/q", Typeflag: tar.TypeReg, Size: 4}), "0", "more than the file"},
		"no archive":              {bytes.Repeat([]byte("no tar "), 1000), "0", "invalid tar header"},
		"nothing":                 {nil, "0", "sent nothing"},
		"no end":                  {append(bytes.Clone(good), make([]byte, 2<<20)...), "0", "more behind the end"},
		"a symlink":               {clitest.Archive(t, tar.Header{Name: "./p", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}), "0", `symlink to "/etc/shadow"`},
		"a device under its name": {clitest.Archive(t, tar.Header{Name: "./p", Typeflag: tar.TypeChar}), "0", "neither a file nor a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			w.Sends(t, c.archive, c.code)
			dir := t.TempDir()
			code, _, stderr := w.Run(t, "cp", "web:p", filepath.Join(dir, "p"))
			if code != cli.ExitFailure || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "\x1b") {
				t.Errorf("exit code %d, %q", code, stderr)
			}
			if left := clitest.TreeText(t, dir); len(left) > 1 || name != "tar failed" && len(left) > 0 && name != "no end" && name != "more than the file" {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// What is too large for one request goes on where it was when the same copy is made again.
func TestACopyThatWasInterruptedGoesOn(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	large := strings.Repeat("0123456789abcdef", 4<<20) // 64 MiB
	clitest.Put(t, dir, "large", large)
	serve := w.Plane
	ctx, stop := context.WithCancel(t.Context())
	parts := 0
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if parts++; parts == 2 {
				stop()
			}
		}
		serve(rw, r)
	})
	_, _, ended := w.Begin(ctx, strings.NewReader(""), "cp", filepath.Join(dir, "large"), "web:large")
	if code := <-ended; code != cli.ExitInterrupted {
		t.Fatalf("exit code %d", code)
	}
	if got := clitest.TreeText(t, workspace); len(got) > 0 {
		t.Error("half of the file is seen")
	}
	code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "large"), "web:large")
	if code != 0 || !strings.Contains(stderr, "large: goes on behind ") || !strings.Contains(stderr, "which the sandbox has already") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if clitest.ContentOf(workspace, "large") != large {
		t.Error("the copy is another file")
	}
	if code, _, stderr := w.Run(t, "cp", "web:large", filepath.Join(dir, "back")); code != 0 || clitest.ContentOf(dir, "back") != large {
		t.Errorf("back: exit code %d, %q", code, stderr)
	}
}
