// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
)

// shellPackages make an image in which a person can look around.
var shellPackages = []string{"base-files", "bash", "busybox", "coreutils", "dash", "findutils", "grep", "procps", "sed", "tar"}

// exampleApps are the sample projects whose dependencies the Node image carries. They must not
// need different versions of the same package: all of it lies in one folder.
var exampleApps = []string{"examples/web", "examples/vite"}

// toolchainNode is Debian's Node.js with a shell, and with the sample projects'
// dependencies where Node finds them from the workspace: in a folder of
// NODE_PATH's kind that also works for ES modules, a parent of every workspace.
func toolchainNode() recipe {
	packages := append([]string{"nodejs"}, shellPackages...)
	return recipe{
		config: ociimage.Config{
			Cmd: []string{"/bin/sh"}, WorkingDir: "/home/app", User: runAsUnprivileged,
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/app", "NODE_PATH=/opt/app-deps/node_modules"},
		},
		key: func(_ context.Context, b *Builder) (string, error) {
			var locks []string
			for _, app := range exampleApps {
				lock, err := fileHash(filepath.Join(b.Root, app, "package-lock.json"))
				if errors.Is(err, os.ErrNotExist) {
					return "", errAbsent
				}
				if err != nil {
					return "", err
				}
				locks = append(locks, lock)
			}
			return fmt.Sprintf("%s %q %q", recipeVersion, packages, locks), nil
		},
		write: func(ctx context.Context, b *Builder, w *ociimage.LayerWriter) error {
			if err := writeDebian(ctx, w, packages...); err != nil {
				return err
			}
			for _, app := range exampleApps {
				if err := writeDependencies(ctx, w, filepath.Join(b.Root, app)); err != nil {
					return err
				}
			}
			// ES modules ignore NODE_PATH and look in node_modules of every
			// parent folder; the root is a parent of every workspace.
			return w.Symlink("node_modules", "/opt/app-deps/node_modules")
		},
	}
}

// recipeVersion changes when what this package writes changes for the same
// packages.
const recipeVersion = "1"

// npmTools install a project's dependencies from its lock file.
var npmTools = []parts.Tool{{File: "npm", Package: "npm"}}

// writeDependencies installs what a project is developed with, and runs nothing of it.
func writeDependencies(ctx context.Context, w *ociimage.LayerWriter, project string) error {
	if err := parts.Ensure(ctx, npmTools); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandbar-npm-")
	if err != nil {
		return fmt.Errorf("making a folder for dependencies: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(project, name))
		if err != nil {
			return fmt.Errorf("reading the project: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("copying the project: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	modules := filepath.Join(dir, "node_modules")
	// npm's own record, which names the registry.
	if err := os.RemoveAll(filepath.Join(modules, ".package-lock.json")); err != nil {
		return fmt.Errorf("removing npm's record: %w", err)
	}
	return w.Tree("opt/app-deps/node_modules", modules)
}

// toolchainPython is a shell, Python and its driver of PostgreSQL.
func toolchainPython() recipe {
	return recipe{
		config: ociimage.Config{
			Cmd: []string{"/bin/sh"}, WorkingDir: "/home/app", User: runAsUnprivileged,
			// Sources lie on volumes and in images that nobody writes to: no folders of bytecode.
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/app", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"},
		},
		key:   debianKey(pythonPackages, nil),
		write: debianOnly(pythonPackages, nil),
	}
}

var pythonPackages = append([]string{"python3", "python3-psycopg2"}, shellPackages...)

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
