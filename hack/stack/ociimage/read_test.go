// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAnImageUponAnotherHasItsLayersByteForByte(t *testing.T) {
	dir := t.TempDir()
	layer := func(name string) Layer {
		t.Helper()
		w, err := NewLayer(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Remove)
		if err := w.Text(name, "content of "+name, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := layer("first"), layer("second")
	archive := filepath.Join(dir, "base.tar")
	if err := Write(archive, "localhost/base:dev", Config{}, first, second); err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	got, err := Layers(archive, temporary)
	if err != nil {
		t.Fatal(err)
	}
	digests := func(layers []Layer) (all []string) {
		for _, l := range layers {
			all = append(all, l.digest)
		}
		return all
	}
	if !slices.Equal(digests(got), digests([]Layer{first, second})) {
		t.Errorf("layers %v, want %v", digests(got), digests([]Layer{first, second}))
	}
	for i, l := range []Layer{first, second} {
		want, err := os.ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(got[i].path); err != nil || !slices.Equal(have, want) || got[i].size != l.size {
			t.Errorf("layer %d differs: %v", i, err)
		}
	}
	Discard(got)
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if _, err := Layers(second.path, temporary); err == nil {
		t.Error("a layer was taken for an archive")
	}
}
