// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
)

// recipeVersion changes when what this package writes changes for the same
// packages.
const recipeVersion = "1"

// component is what a part of examples/web-app runs from in production: its toolchain's image,
// and its files in /app.
func component(part, toolchain string, command ...string) recipe {
	folder := func(b *Builder) string { return filepath.Join(b.Root, "examples", "web-app", part) }
	return recipe{
		base:   toolchain,
		config: ociimage.Config{Entrypoint: command, WorkingDir: "/app", User: runAsUnprivileged},
		key:    func(_ context.Context, b *Builder) (string, error) { return treeHash(folder(b)) },
		write: func(_ context.Context, b *Builder, w *ociimage.LayerWriter) error {
			return w.Tree("app", folder(b))
		},
	}
}

// postgres is Debian's PostgreSQL, without what only just-in-time compilation, Debian's own
// scripts and other languages need.
func postgres() recipe {
	packages := []string{"postgresql-15", "dash", "base-files", "coreutils"}
	without := []string{
		"libllvm14", "libz3-4", "locales", "libc-l10n", "usrmerge", "openssl", "adduser", "passwd", "dpkg", "ucf",
		"perl", "perl-modules-5.36", "libperl5.36", "libjson-perl", "libnumber-compare-perl", "libtext-glob-perl", "libfile-find-rule-perl",
	}
	return recipe{
		config: ociimage.Config{
			WorkingDir: "/home/app", User: runAsUnprivileged,
			Env: []string{"PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin", "HOME=/home/app"},
		},
		key:   debianKey(packages, without),
		write: debianOnly(packages, without),
	}
}

// redis is Debian's Redis, as a workload that is no sandbox.
func redis() recipe {
	packages := []string{"redis-server", "redis-tools", "dash", "base-files", "coreutils"}
	return recipe{
		config: ociimage.Config{
			Entrypoint: []string{"/usr/bin/redis-server"}, WorkingDir: "/home/app", User: runAsUnprivileged,
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/app"},
		},
		key:   debianKey(packages, nil),
		write: debianOnly(packages, nil),
	}
}

// debianKey is the key of an image of Debian packages and nothing else.
func debianKey(packages, without []string) func(context.Context, *Builder) (string, error) {
	return func(context.Context, *Builder) (string, error) {
		if len(without) == 0 {
			return fmt.Sprintf("%s %q", recipeVersion, packages), nil
		}
		return fmt.Sprintf("%s %q without %q", recipeVersion, packages, without), nil
	}
}

func debianOnly(packages, without []string) func(context.Context, *Builder, *ociimage.LayerWriter) error {
	return func(ctx context.Context, _ *Builder, w *ociimage.LayerWriter) error {
		return writeDebianWithout(ctx, w, without, packages...)
	}
}

// treeHash returns the hash of a folder's files, names and content.
func treeHash(dir string) (string, error) {
	var content []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		sum, err := fileHash(path)
		rel, relErr := filepath.Rel(dir, path)
		content = append(content, filepath.ToSlash(rel), sum)
		return errors.Join(err, relErr)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", errAbsent
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	return hashOf(content...), nil
}
