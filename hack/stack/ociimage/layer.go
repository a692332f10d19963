// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// LayerWriter writes the files of one layer. Folders come into being with what
// is put in them; of two entries with one name the first counts.
type LayerWriter struct {
	file *os.File
	sum  hash.Hash
	tar  *tar.Writer
	seen map[string]bool
}

// NewLayer begins a layer in a temporary file below dir.
func NewLayer(dir string) (*LayerWriter, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of a layer: %w", err)
	}
	f, err := os.CreateTemp(dir, ".layer-*")
	if err != nil {
		return nil, fmt.Errorf("beginning a layer: %w", err)
	}
	sum := sha256.New()
	return &LayerWriter{
		file: f, sum: sum,
		tar:  tar.NewWriter(io.MultiWriter(f, sum)),
		seen: map[string]bool{".": true},
	}, nil
}

// Finish ends the layer. Remove must be called once it has been used.
func (w *LayerWriter) Finish() (Layer, error) {
	err := w.tar.Close()
	info, statErr := w.file.Stat()
	if err = errors.Join(err, statErr, w.file.Close()); err != nil {
		return Layer{}, fmt.Errorf("ending a layer: %w", err)
	}
	return Layer{w.file.Name(), "sha256:" + hex.EncodeToString(w.sum.Sum(nil)), info.Size()}, nil
}

// Remove removes the layer's temporary file.
func (w *LayerWriter) Remove() {
	w.file.Close()
	_ = os.Remove(w.file.Name())
}

// Owner is the user and group of an entry.
type Owner struct{ UID, GID int }

// Add writes an entry with the content of r. Times and names of owners are
// dropped: they differ between machines and mean nothing in a container.
func (w *LayerWriter) Add(h tar.Header, r io.Reader) error {
	name := path.Clean(strings.TrimPrefix(h.Name, "/"))
	if w.seen[name] {
		return nil
	}
	if strings.HasPrefix(name, "../") {
		return fmt.Errorf("layer entry %q lies outside the image", h.Name)
	}
	if parent := path.Dir(name); !w.seen[parent] {
		if err := w.Dir(parent, 0o755, Owner{}); err != nil {
			return err
		}
	}
	w.seen[name] = true
	clean := tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode,
		Uid: h.Uid, Gid: h.Gid, ModTime: epoch, Devmajor: h.Devmajor, Devminor: h.Devminor,
	}
	if h.Typeflag == tar.TypeDir {
		clean.Name += "/"
	}
	if err := w.tar.WriteHeader(&clean); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if h.Size > 0 {
		if _, err := io.Copy(w.tar, r); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// Dir writes a folder.
func (w *LayerWriter) Dir(name string, mode fs.FileMode, owner Owner) error {
	return w.Add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: int64(mode), Uid: owner.UID, Gid: owner.GID}, nil)
}

// Symlink writes a symbolic link.
func (w *LayerWriter) Symlink(name, target string) error {
	return w.Add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// Text writes a file with that content.
func (w *LayerWriter) Text(name, content string, mode fs.FileMode) error {
	return w.Add(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: int64(mode)}, strings.NewReader(content))
}

// File writes the content of a file of this machine.
func (w *LayerWriter) File(name, from string, mode fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	return w.Add(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(mode)}, f)
}

// Tree writes a folder of this machine with all below it, readable by everybody.
// Only folders, files and symbolic links are taken.
func (w *LayerWriter) Tree(name, from string) error {
	return w.TreeWithout(name, from, func(string) bool { return false })
}

// TreeWithout is Tree without the files and folders for whose path omit returns true.
func (w *LayerWriter) TreeWithout(name, from string, omit func(path string) bool) error {
	return filepath.WalkDir(from, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if omit(at) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			return w.Dir(to, 0o755, Owner{})
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			return w.Symlink(to, target)
		case info.Mode().IsRegular():
			mode := fs.FileMode(0o644)
			if info.Mode()&0o111 != 0 {
				mode = 0o755
			}
			return w.File(to, at, mode)
		default:
			return fmt.Errorf("%s is neither a file nor a folder", at)
		}
	})
}
