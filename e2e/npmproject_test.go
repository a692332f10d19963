// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// npmTemplate is a template of a framework, as npm has it, in fixed versions.
type npmTemplate struct {
	// name is the folder of its lock file, below testdata/frameworks.
	name string
	// create is the command of npx that makes a project in the folder "project"; files are the project's where
	// there is none.
	create []string
	files  map[string]string
}

// made returns a project that the template's own command made, or of its files, and an npm cache with all of its
// dependencies. Both are made once for the versions, outside of the checkout.
func (m npmTemplate) made(t *testing.T) (project, cache string) {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join("testdata", "frameworks", m.name, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(toolchainOnHost(t), "node_modules")
	dir := kept(t, m.name, fmt.Sprintf("%q %q %s %s", m.create, m.files, lock, tools), func(dir string) error {
		var err error
		if m.files != nil {
			writeAll(t, filepath.Join(dir, "project"), m.files)
		} else {
			err = npm(t, tools, dir, append([]string{"exec", "--yes", "--"}, m.create...)...)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "project", "package-lock.json"), lock, 0o600)
		}
		if err == nil {
			err = npm(t, tools, dir, "install", "--prefix", "project", "--ignore-scripts", "--no-audit", "--no-fund")
		}
		if err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(filepath.Join(dir, "project", "node_modules")), os.RemoveAll(filepath.Join(dir, "npm", "_npx")))
	})
	return filepath.Join(dir, "project"), filepath.Join(dir, "npm")
}

// npm runs the npm of the toolchain's image in a folder, with the cache in "npm" there.
func npm(t *testing.T, tools, dir string, args ...string) error {
	t.Helper()
	nodes, err := filepath.Glob(filepath.Join(tools, "node-linux-*", "bin"))
	if err != nil || len(nodes) != 1 {
		return fmt.Errorf("looking for Node's folder: %d found: %w", len(nodes), err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(nodes[0], "node"), append([]string{filepath.Join(tools, "npm", "bin", "npm-cli.js")}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+nodes[0]+":"+os.Getenv("PATH"), "npm_config_cache="+filepath.Join(dir, "npm"), "CI=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// toolchainOnHost installs the Node and the npm of the toolchain's image on this machine, whose own may be
// too old for today's templates.
func toolchainOnHost(t *testing.T) string {
	t.Helper()
	const project = "../hack/stack/images/node"
	lock, err := os.ReadFile(filepath.Join(project, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	return kept(t, "node", string(lock), func(dir string) error {
		if err := os.CopyFS(dir, os.DirFS(project)); err != nil {
			return err
		}
		cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("npm ci: %w\n%s", err, out)
		}
		return nil
	})
}

// kept returns a folder of the cache that fill made, now or in an earlier run with the same key.
func kept(t *testing.T, name, key string, fill func(dir string) error) string {
	t.Helper()
	base := os.Getenv("SANDBAR_CACHE")
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			t.Fatal(err)
		}
	}
	base = filepath.Join(base, "sandbar", "e2e")
	dir := filepath.Join(base, fmt.Sprintf("%s-%x", name, sha256.Sum256([]byte(key)))[:len(name)+17])
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	err := os.MkdirAll(base, 0o755)
	var making string
	if err == nil {
		making, err = os.MkdirTemp(base, "."+name+"-") //nolint:usetesting // beside dir, to be renamed
	}
	if err == nil {
		defer func() { _ = os.RemoveAll(making) }()
		err = fill(making)
	}
	if err != nil {
		t.Fatalf("preparing %s: %v", name, err)
	}
	// Another run may have been faster.
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return dir
}

// carry sends a folder of this machine into a directory of a sandbox, past sync, which leaves caches alone.
func (s *terminal) carry(name, folder, directory string) {
	s.t.Helper()
	tar := exec.CommandContext(s.t.Context(), "tar", "-C", folder, "-c", ".")
	into := exec.CommandContext(s.t.Context(), s.program, "exec", "-i", name, "--", "sh", "-c", `mkdir -p "$0" && tar -C "$0" -x`, directory)
	into.Env = s.env
	var err error
	if into.Stdin, err = tar.StdoutPipe(); err == nil {
		err = tar.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := into.CombinedOutput()
	if err = errors.Join(err, tar.Wait()); err != nil {
		s.t.Fatalf("sending %s: %v: %s", folder, err, out)
	}
}
