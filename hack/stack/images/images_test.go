// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
)

func TestMain(m *testing.M) {
	progress.Out = io.Discard
	os.Exit(m.Run())
}

func TestIntoUsr(t *testing.T) {
	for name, want := range map[string]string{
		"bin/sh":                "usr/bin/sh",
		"lib64/ld-linux.so.2":   "usr/lib64/ld-linux.so.2",
		"bin":                   "usr/bin",
		"usr/bin/node":          "usr/bin/node",
		"library/x":             "library/x",
		"etc/lib/x":             "etc/lib/x",
		"sbin/start-stop":       "usr/sbin/start-stop",
		"binfmt":                "binfmt",
		"":                      "",
		"lib/x86_64-linux-gnu/": "usr/lib/x86_64-linux-gnu/",
	} {
		if got := intoUsr(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

// headersOf returns what is in a layer that fill has written.
func headersOf(t *testing.T, fill func(w *ociimage.LayerWriter) error) map[string]tar.Header {
	t.Helper()
	dir := t.TempDir()
	w, err := ociimage.NewLayer(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, ".layer-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]tar.Header{}
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = *h
	}
}

func TestPackagedFilesAreMergedStrippedAndHarmless(t *testing.T) {
	found := headersOf(t, func(w *ociimage.LayerWriter) error {
		if err := writeSkeleton(w); err != nil {
			return err
		}
		for _, h := range []tar.Header{
			{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "./bin/", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "./bin/su", Typeflag: tar.TypeReg, Mode: 0o4755},
			{Name: "./bin/su2", Typeflag: tar.TypeLink, Linkname: "./bin/su"},
			{Name: "./usr/share/doc/x/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "./etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644},
		} {
			if err := addPackaged(w, h, strings.NewReader("")); err != nil {
				return err
			}
		}
		return nil
	})
	if h := found["bin"]; h.Typeflag != tar.TypeSymlink || h.Linkname != "usr/bin" {
		t.Errorf("bin is %c to %q, want a link to usr/bin", h.Typeflag, h.Linkname)
	}
	if h := found["usr/bin/su"]; h.Mode != 0o755 {
		t.Errorf("su has mode %o, want 0755 without set-id", h.Mode)
	}
	if h := found["usr/bin/su2"]; h.Linkname != "usr/bin/su" {
		t.Errorf("a hard link points to %q", h.Linkname)
	}
	if _, ok := found["usr/share/doc/x/copyright"]; ok {
		t.Error("documentation is in the image")
	}
	if h := found["etc/passwd"]; h.Size == 0 {
		t.Error("a package replaced the image's users")
	}
	if h := found["home/app/"]; h.Uid != unprivileged {
		t.Errorf("the home folder belongs to %d", h.Uid)
	}
}

func TestGoIsWrittenWithoutItsTestsAndItsOwnCommands(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(t.TempDir(), "elsewhere") // a distribution's folder of Go is made of links
	for _, name := range []string{
		"VERSION", "go.env", "bin/go", "lib/time/zoneinfo.zip", "pkg/include/x.h", "pkg/tool/compile", "test/x.go",
	} {
		writeFile(t, filepath.Join(root, name))
	}
	for _, name := range []string{"net/net.go", "net/net_test.go", "net/testdata/x", "cmd/go/main.go", "vendor/x/cmd/y.go"} {
		writeFile(t, filepath.Join(source, name))
	}
	if err := os.Symlink(source, filepath.Join(root, "src")); err != nil {
		t.Fatal(err)
	}
	found := headersOf(t, func(w *ociimage.LayerWriter) error { return writeGo(w, root) })
	var files []string
	for name, h := range found {
		if h.Typeflag == tar.TypeReg {
			files = append(files, strings.TrimPrefix(name, "usr/local/go/"))
		}
	}
	slices.Sort(files)
	want := []string{
		"VERSION", "bin/go", "go.env", "lib/time/zoneinfo.zip", "pkg/include/x.h", "pkg/tool/compile", "src/net/net.go", "src/vendor/x/cmd/y.go",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}

func writeFile(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A toolchain that changes its recipe without another key would be taken from the cache as it was.
func TestAToolchainIsNamedForWhatGoesIn(t *testing.T) {
	root := t.TempDir()
	for _, project := range append([]string{nodePackages}, exampleApps...) {
		writeFile(t, filepath.Join(root, project, "package-lock.json"))
	}
	b := &Builder{Root: root}
	key := func() string {
		t.Helper()
		plain, err := toolchainNodePlain().key(t.Context(), b)
		own, ownErr := toolchainNode().key(t.Context(), b)
		if err := errors.Join(err, ownErr); err != nil {
			t.Fatal(err)
		}
		return plain + own
	}
	first := key()
	if key() != first {
		t.Error("the same lock files give another key")
	}
	if err := os.WriteFile(filepath.Join(root, nodePackages, "package-lock.json"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	second := key()
	if second == first {
		t.Error("another Node gives the same key")
	}
	if err := os.WriteFile(filepath.Join(root, exampleApps[0], "package-lock.json"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if key() == second {
		t.Error("other dependencies of the samples give the same key")
	}
}

func TestABinarysImageIsMadeOncePerContent(t *testing.T) {
	cache, part := t.TempDir(), t.TempDir()
	b := &Builder{Root: t.TempDir(), Cache: cache, Parts: parts.Built{"pause": part}}
	build := func(content string) string {
		if err := os.WriteFile(filepath.Join(part, "pause"), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		archives, err := b.Build(t.Context(), []string{"pause"}, false)
		if err != nil {
			t.Fatal(err)
		}
		return archives["pause"]
	}
	first := build("one")
	if again := build("one"); again != first {
		t.Error("the same binary gave another archive")
	}
	if other := build("two"); other == first {
		t.Error("another binary gave the same archive")
	}
	if name, err := ociimage.Name(first); err != nil || name != "localhost/sandbar/pause:dev" {
		t.Errorf("name %q, %v", name, err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "images", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestBuildWithoutSources(t *testing.T) {
	b := &Builder{Root: t.TempDir(), Cache: t.TempDir()}
	archives, err := b.Build(t.Context(), []string{"runner"}, true)
	if err != nil || len(archives) != 0 {
		t.Errorf("optional: %v, %v, want none", archives, err)
	}
	if _, err := b.Build(t.Context(), []string{"runner"}, false); !errors.Is(err, errAbsent) {
		t.Errorf("asked for: %v, want errAbsent", err)
	}
	if _, err := b.Build(t.Context(), []string{"nope"}, true); err == nil || !strings.Contains(err.Error(), "toolchain-node") {
		t.Errorf("an unknown name: %v, want an error that lists the names", err)
	}
}

// fakeCTR is a ctr that notes its arguments.
const fakeCTR = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/calls\"\n"

func TestImportBringsInWhatTheNodeDoesNotHave(t *testing.T) {
	dir := t.TempDir()
	ctr := filepath.Join(dir, "ctr")
	if err := os.WriteFile(ctr, []byte(fakeCTR), 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "a.tar")
	write := func(name string) {
		t.Helper()
		if err := ociimage.Write(archive, name, ociimage.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	write("localhost/sandbar/a:dev")
	importer := Importer{CTR: ctr, Socket: "/s", Record: filepath.Join(dir, "record.json")}
	calls := func(refs map[string]string) string {
		t.Helper()
		if err := importer.Import(t.Context(), refs); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(dir, "calls"))
		return string(data)
	}
	prefix := "--address /s --namespace k8s.io images "
	own := map[string]string{"localhost/sandbar/a:dev": archive}
	if diff := cmp.Diff(prefix+"import "+archive+"\n", calls(own)); diff != "" {
		t.Error("first:", diff)
	}
	if diff := cmp.Diff("", calls(own)); diff != "" {
		t.Error("again:", diff)
	}
	other := map[string]string{"localhost/x:1": archive}
	want := prefix + "import " + archive + "\n" + prefix + "tag --force localhost/sandbar/a:dev localhost/x:1\n"
	if diff := cmp.Diff(want, calls(other)); diff != "" {
		t.Error("under another name:", diff)
	}
	write("localhost/sandbar/a:dev-longer")
	if calls(own) == "" {
		t.Error("a changed archive was not imported")
	}
}
