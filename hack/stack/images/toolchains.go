// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
)

// toolPackages are what a developer expects in every toolchain, besides the language itself: a shell,
// git, a pager, an editor, ps, and what those need that no package of theirs depends on.
var toolPackages = []string{
	"base-files", "bash", "busybox", "ca-certificates", "coreutils", "dash", "debianutils", "diffutils", "findutils", "git", "grep", "gzip",
	"less", "nano", "ncurses-base", "procps", "sed", "tar",
}

// toolsWithout are packages that others depend on for their scripts, which are not run, for manuals,
// and for the commands of git that are written in Perl (send-email, svn).
var toolsWithout = []string{
	"debconf", "dpkg", "git-man", "init-system-helpers", "libdb5.3", "liberror-perl", "libfile-find-rule-perl", "libgdbm-compat4", "libgdbm6",
	"libnumber-compare-perl", "libperl5.36", "libtext-glob-perl", "openssl", "perl", "perl-base", "perl-modules-5.36", "usrmerge",
}

// toolchainEnv is the environment of every toolchain's image.
func toolchainEnv(path string, more ...string) []string {
	return append([]string{"PATH=" + path + "/usr/local/bin:/usr/bin:/bin", "HOME=/home/app", "EDITOR=nano", "PAGER=less", "LANG=C.UTF-8"}, more...)
}

func toolchainConfig(env []string) ociimage.Config {
	return ociimage.Config{Cmd: []string{"/bin/bash"}, WorkingDir: "/home/app", User: runAsUnprivileged, Env: env}
}

// exampleApps are the sample projects whose dependencies the Node image carries. They must not
// need different versions of the same package: all of it lies in one folder.
var exampleApps = []string{"examples/web", "examples/vite"}

// nodePackages is the project whose dependencies are the Node image's toolchain: official binaries of
// Node, npm and pnpm, in the versions of its lock file.
const nodePackages = "hack/stack/images/node"

// nodeEnv is that of both images of Node: an image upon another has its environment.
func nodeEnv() []string {
	return toolchainEnv("", "NODE_PATH=/opt/app-deps/node_modules", "NPM_CONFIG_UPDATE_NOTIFIER=false",
		// npm waits a minute and more between its tries. Where a sandbox reaches no registry, a person waits
		// with it before they read why.
		"NPM_CONFIG_FETCH_RETRY_MINTIMEOUT=1000", "NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT=5000")
}

// toolchainNodePlain is Node with npm and pnpm: an operator's image. A stack does not need it.
func toolchainNodePlain() recipe {
	packages := append([]string{"libstdc++6"}, toolPackages...)
	return recipe{
		config:   toolchainConfig(nodeEnv()),
		onDemand: true,
		key: func(_ context.Context, b *Builder) (string, error) {
			locks, err := lockFiles(b.Root, []string{nodePackages})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %q without %q %q", recipeVersion, packages, toolsWithout, locks), nil
		},
		write: func(ctx context.Context, b *Builder, w *ociimage.LayerWriter) error {
			if err := writeDebianWithout(ctx, w, toolsWithout, packages...); err != nil {
				return err
			}
			return writeNode(ctx, w, filepath.Join(b.Root, nodePackages))
		},
	}
}

// toolchainNode is the stack's own Node: the plain one with the sample projects' dependencies where Node
// finds them from the workspace, whose sandboxes reach no registry. They lie in a folder of NODE_PATH's
// kind that also works for ES modules, a parent of every workspace. The price is that npm takes the root
// for the project of a folder without a package.json.
//
// Their programs are not in that folder: npm run would find them there for a project whose own are not
// installed yet, and a program of the image with half of the project's packages runs and serves nothing.
func toolchainNode() recipe {
	return recipe{
		base:   "toolchain-node-plain",
		config: toolchainConfig(nodeEnv()),
		key: func(_ context.Context, b *Builder) (string, error) {
			locks, err := lockFiles(b.Root, exampleApps)
			return fmt.Sprintf("%s %q without programs", recipeVersion, locks), err
		},
		write: func(ctx context.Context, b *Builder, w *ociimage.LayerWriter) error {
			for _, app := range exampleApps {
				if err := installed(ctx, filepath.Join(b.Root, app), func(modules string) error {
					return errors.Join(w.Tree("opt/app-deps/node_modules", modules), linkPackages(w, modules))
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// linkPackages links the packages in the root's folder. ES modules ignore NODE_PATH and look in node_modules
// of every parent folder; the root is a parent of every workspace.
func linkPackages(w *ociimage.LayerWriter, modules string) error {
	packages, err := os.ReadDir(modules)
	for _, p := range packages {
		if !strings.HasPrefix(p.Name(), ".") {
			err = errors.Join(err, w.Symlink("node_modules/"+p.Name(), "/opt/app-deps/node_modules/"+p.Name()))
		}
	}
	return err
}

// lockFiles returns the hashes of the lock files of projects.
func lockFiles(root string, projects []string) ([]string, error) {
	var locks []string
	for _, project := range projects {
		lock, err := fileHash(filepath.Join(root, project, "package-lock.json"))
		if errors.Is(err, os.ErrNotExist) {
			return nil, errAbsent
		}
		if err != nil {
			return nil, err
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

// writeNode writes Node for the processor of this machine, npm and pnpm, as an installation of Node has them.
func writeNode(ctx context.Context, w *ociimage.LayerWriter, project string) error {
	return installed(ctx, project, func(modules string) error {
		binaries, err := filepath.Glob(filepath.Join(modules, "node-linux-*", "bin", "node"))
		if err != nil || len(binaries) != 1 {
			return fmt.Errorf("looking for Node's binary: %d found: %w", len(binaries), errors.Join(err, errAbsent))
		}
		err = w.File("usr/local/bin/node", binaries[0], 0o755)
		for _, name := range []string{"npm", "pnpm"} {
			err = errors.Join(err, w.Tree("usr/local/lib/node_modules/"+name, filepath.Join(modules, name)))
		}
		for _, link := range [][2]string{
			{"npm", "npm/bin/npm-cli.js"}, {"npx", "npm/bin/npx-cli.js"}, {"pnpm", "pnpm/bin/pnpm.cjs"}, {"pnpx", "pnpm/bin/pnpx.cjs"},
		} {
			err = errors.Join(err, w.Symlink("usr/local/bin/"+link[0], "../lib/node_modules/"+link[1]))
		}
		return err
	})
}

// npmTools install a project's dependencies from its lock file.
var npmTools = []parts.Tool{{File: "npm", Package: "npm"}}

// installed installs what a project is developed with, runs nothing of it, and hands its folder to use.
func installed(ctx context.Context, project string, use func(modules string) error) error {
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
	return use(modules)
}

// pythonPackages are Debian's Python with pip, venv and the driver of PostgreSQL, and the time zones, without which
// Django does not start.
var pythonPackages = append([]string{"python3", "python3-pip", "python3-psycopg2", "python3-venv", "tzdata"}, toolPackages...)

func toolchainPython() recipe {
	return recipe{
		// Sources lie on volumes and in images that nobody writes to: no folders of bytecode.
		config: toolchainConfig(toolchainEnv("", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "PIP_DISABLE_PIP_VERSION_CHECK=1")),
		key:    debianKey(pythonPackages, toolsWithout),
		write:  debianOnly(pythonPackages, toolsWithout),
	}
}

// goParts are what of Go's own folder compiles programs; the rest of it is documentation, tests, and the
// source of Go's own commands.
var goParts = []string{"VERSION", "go.env", "bin", "lib", "pkg/include", "pkg/tool", "src"}

// goRecipe changes when writeGo writes something else of the same Go.
const goRecipe = "2"

// toolchainGo is the Go of this machine, which builds Sandbar too: Debian's is too old for today's
// modules. It has no compiler of C.
func toolchainGo() recipe {
	return recipe{
		config: toolchainConfig(toolchainEnv("/usr/local/go/bin:", "CGO_ENABLED=0")),
		key: func(ctx context.Context, _ *Builder) (string, error) {
			version, err := goEnv(ctx, "GOVERSION", "GOOS", "GOARCH")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %q without %q %q of %q", goRecipe, toolPackages, toolsWithout, goParts, version), nil
		},
		write: func(ctx context.Context, _ *Builder, w *ociimage.LayerWriter) error {
			if err := writeDebianWithout(ctx, w, toolsWithout, toolPackages...); err != nil {
				return err
			}
			root, err := goEnv(ctx, "GOROOT")
			if err != nil {
				return err
			}
			return writeGo(w, root[0])
		},
	}
}

// writeGo writes a folder of Go without its tests and their data.
func writeGo(w *ociimage.LayerWriter, root string) error {
	for _, part := range goParts {
		from, err := filepath.EvalSymlinks(filepath.Join(root, part)) // a distribution's folder is made of links
		if err != nil {
			return fmt.Errorf("reading Go's folder: %w", err)
		}
		err = w.TreeWithout("usr/local/go/"+part, from, func(name string) bool {
			base := filepath.Base(name)
			return base == "testdata" || strings.HasSuffix(base, "_test.go") || name == filepath.Join(from, "cmd")
		})
		if err != nil {
			return fmt.Errorf("writing Go: %w", err)
		}
	}
	return nil
}

// goEnv returns settings of the Go that builds Sandbar.
func goEnv(ctx context.Context, names ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("asking Go for %s: %w", strings.Join(names, ", "), err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}
