// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func writeImage(t *testing.T, fill func(w *LayerWriter) error) string {
	t.Helper()
	dir := t.TempDir()
	w, err := NewLayer(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	layer, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "image.tar")
	if err := Write(archive, "localhost/a/b:dev", Config{Entrypoint: []string{"/x"}, User: "1000:1000"}, layer); err != nil {
		t.Fatal(err)
	}
	return archive
}

// entries reads a tar into names and contents.
func entries(t *testing.T, r io.Reader) (headers []tar.Header, contents map[string]string) {
	t.Helper()
	contents = map[string]string{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, *h)
		contents[h.Name] = string(data)
	}
}

func read(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, contents := entries(t, f)
	return contents
}

// layerOf follows the archive's own references from the index to the layer, and
// checks on the way that every digest and size is that of the content.
func layerOf(t *testing.T, archive map[string]string) []tar.Header {
	t.Helper()
	blob := func(d descriptor) string {
		content, ok := archive[blobPath(d.Digest)]
		sum := sha256.Sum256([]byte(content))
		if !ok || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || int64(len(content)) != d.Size {
			t.Fatalf("blob %+v is missing or another", d)
		}
		return content
	}
	decode := func(text string, into any) {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []descriptor }
	decode(archive["index.json"], &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(blob(index.Manifests[0]), &manifest)
	var config struct {
		Config Config
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(blob(manifest.Config), &config)
	if diff := cmp.Diff([]string{manifest.Layers[0].Digest}, config.RootFS.DiffIDs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Config{Entrypoint: []string{"/x"}, User: "1000:1000"}, config.Config); diff != "" {
		t.Error(diff)
	}
	headers, _ := entries(t, strings.NewReader(blob(manifest.Layers[0])))
	return headers
}

func TestArchiveHoldsTogether(t *testing.T) {
	path := writeImage(t, func(w *LayerWriter) error {
		return errors.Join(
			w.Text("etc/deep/file", "content", 0o644),
			w.Symlink("bin", "usr/bin"),
			w.Dir("home/app", 0o750, Owner{1000, 1000}),
			w.Add(tar.Header{Typeflag: tar.TypeReg, Name: "dated", Mode: 0o600, ModTime: time.Now(), Uname: "me"}, strings.NewReader("")),
		)
	})
	archive := read(t, path)
	if got, want := archive["oci-layout"], `{"imageLayoutVersion":"1.0.0"}`; got != want {
		t.Errorf("oci-layout %q, want %q", got, want)
	}
	type entry struct {
		Name, Link string
		Mode       int64
		UID        int
	}
	var got []entry
	for _, h := range layerOf(t, archive) {
		if !h.ModTime.Equal(epoch) || h.Uname != "" {
			t.Errorf("%s tells of this machine: %s, %q", h.Name, h.ModTime, h.Uname)
		}
		got = append(got, entry{h.Name, h.Linkname, h.Mode, h.Uid})
	}
	want := []entry{
		{"etc/", "", 0o755, 0},
		{"etc/deep/", "", 0o755, 0},
		{"etc/deep/file", "", 0o644, 0},
		{"bin", "usr/bin", 0o777, 0},
		{"home/", "", 0o755, 0},
		{"home/app/", "", 0o750, 1000},
		{"dated", "", 0o600, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if name, err := Name(path); err != nil || name != "localhost/a/b:dev" {
		t.Errorf("name %q, %v", name, err)
	}
}

func TestSameContentGivesTheSameBytes(t *testing.T) {
	from := t.TempDir()
	for _, name := range []string{"b", "a", "c/d"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(w *LayerWriter) error { return w.Tree("app", from) }
	first := writeImage(t, fill)
	if err := os.Chtimes(filepath.Join(from, "a"), epoch, epoch); err != nil {
		t.Fatal(err)
	}
	second := writeImage(t, fill)
	if diff := cmp.Diff(read(t, first), read(t, second)); diff != "" {
		t.Error(diff)
	}
}

func TestOfTwoEntriesWithOneNameTheFirstCounts(t *testing.T) {
	headers := layerOf(t, read(t, writeImage(t, func(w *LayerWriter) error {
		return errors.Join(w.Text("./a", "one", 0o600), w.Text("/a", "two", 0o644), w.Dir("d", 0o1777, Owner{}), w.Text("d/x", "", 0o644))
	})))
	var names []string
	for _, h := range headers {
		names = append(names, h.Name)
	}
	if diff := cmp.Diff([]string{"a", "d/", "d/x"}, names); diff != "" {
		t.Error(diff)
	}
	if headers[0].Mode != 0o600 || headers[1].Mode != 0o1777 {
		t.Errorf("modes %o and %o are not those of the first", headers[0].Mode, headers[1].Mode)
	}
}

func TestAnEntryOutsideTheImageIsRefused(t *testing.T) {
	w, err := NewLayer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if err := w.Text("../../etc/passwd", "x", 0o644); err == nil {
		t.Error("it was accepted")
	}
}

func TestNameOfWhatIsNoArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(path, []byte("no tar"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Name(path); err == nil || !strings.Contains(err.Error(), "no OCI archive") {
		t.Errorf("error %v", err)
	}
}
