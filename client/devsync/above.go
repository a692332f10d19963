// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/gitignore"
)

// What git ignores and tracks is not all written in the directory that is synced. In a monorepo it is a part of
// a work tree, whose rules begin at the top; .git/info/exclude and core.excludesFile have more; and a file
// that git tracks counts although a rule names it. Git itself answers what its configuration and its index
// say, if it is installed.

const (
	// gitTime bounds one question to git, and maxTracked its answer in bytes.
	gitTime    = 30 * time.Second
	maxTracked = 16 << 20
	// aboveEvery is how old an answer of git may be when everything is read again, which is every two
	// seconds where the directory cannot be watched.
	aboveEvery = 20 * time.Second
)

// editorFiles are names of swap, lock, backup and probe files of editors and file systems: gone a moment
// later, and a reason to restart an app for a program that watches. A .sandbarignore or a .gitignore with
// "!" brings a name back.
const editorFiles = `
.*.sw[a-px]
.sw[a-px]
4913
*~
.#*
\#*#
.goutputstream-*
*___jb_tmp___
*___jb_old___
.*.kate-swp
.~lock.*#
.nfs????????????????*
.fuse_hidden*
`

// above is what decides in a directory and does not lie in it.
type above struct {
	// prefix is where the directory lies below the one whose rules count first, "apps/web/" for
	// example; empty if nothing above it counts.
	prefix string
	// defaults are the contents of files that count less than any in a tree, in their order.
	defaults []string
	// files are the ignore files of the directories above, the topmost first.
	files []ruleFile
	// tracked are paths that git tracks although a rule of git names them, and all that submodules track: the
	// rules above a submodule are not its own.
	tracked []string
	// foldCase is set where git ignores the case of names, as it does on macOS and Windows.
	foldCase bool
	// untold is why git did not say what it tracks; empty if it did, or there is no repository.
	untold string
}

// ruleFile is an ignore file of a directory, slash-separated and relative to the top.
type ruleFile struct{ dir, name, text string }

func (a *above) same(b *above) bool {
	return a.prefix == b.prefix && a.foldCase == b.foldCase && slices.Equal(a.defaults, b.defaults) && slices.Equal(a.files, b.files) && slices.Equal(a.tracked, b.tracked)
}

// readAbove reads what counts in a directory. project is the directory above it that a person named, whose
// rules count as well; dir if there is none.
func readAbove(ctx context.Context, dir, project string) (*above, error) {
	a := &above{defaults: []string{editorFiles}}
	top, gitDir := workTree(dir)
	if gitDir != "" {
		a.foldCase = foldsCase(ctx, dir)
		for _, name := range []string{excludesFile(ctx, dir), filepath.Join(commonDir(gitDir), "info", "exclude")} {
			text, err := readRules(name)
			if err != nil {
				return nil, fmt.Errorf("reading what git ignores: %w", err)
			}
			a.defaults = append(a.defaults, text)
		}
	}
	repository := top
	if len(project) < len(top) || top == "" {
		top = project
	}
	if err := a.readFiles(top, dir); err != nil {
		return nil, err
	}
	if gitDir != "" {
		var err error
		if a.tracked, err = tracked(ctx, repository, dir); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil && !errors.Is(err, exec.ErrNotFound) {
			a.untold = err.Error()
		}
	}
	return a, nil
}

// readFiles reads the ignore files between the top and the directory. Where the rules ignore the directory
// itself, none of them counts: a person named it.
func (a *above) readFiles(top, dir string) error {
	prefix := inside(top, dir)
	if prefix == "" {
		return nil
	}
	var files []ruleFile
	read := gitignore.Rules{FoldCase: a.foldCase}
	for _, text := range a.defaults {
		read.AddDefaults(text)
	}
	for at := range ancestors(prefix + "/x") {
		up := parent(at)
		for _, name := range ignoreFiles {
			text, err := readIgnoreFile(filepath.Join(top, filepath.FromSlash(up)), name)
			if err != nil {
				return fmt.Errorf("reading what is ignored above %s: %w", dir, err)
			}
			if text != "" {
				files = append(files, ruleFile{up, name, text})
				read.Add(up, text)
			}
		}
		if read.Matches(at, true) {
			a.defaults = a.defaults[:1]
			return nil
		}
	}
	a.prefix, a.files = prefix+"/", files
	return nil
}

// workTree returns the top of the git work tree that a directory lies in, and the repository's own
// directory; both are empty if it lies in none.
func workTree(dir string) (top, gitDir string) {
	for at := dir; ; {
		if name := repositoryAt(at); name != "" {
			return at, name
		}
		above := filepath.Dir(at)
		if above == at {
			return "", ""
		}
		at = above
	}
}

// repositoryAt returns the repository's own directory if dir is the top of a work tree, and empty if not.
func repositoryAt(dir string) string {
	name := filepath.Join(dir, ".git")
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	if !info.IsDir() { // of a submodule, or of a work tree that was added
		name = linkedDir(name, "gitdir: ")
	}
	if _, err := os.Stat(filepath.Join(name, "HEAD")); name == "" || err != nil {
		return ""
	}
	return name
}

// commonDir is the directory that has info/exclude: that of the repository to which a work tree was added.
func commonDir(gitDir string) string {
	return cmp.Or(linkedDir(filepath.Join(gitDir, "commondir"), ""), gitDir)
}

// linkedDir reads a file that names a directory; empty if it does not.
func linkedDir(name, before string) string {
	text, err := readRules(name)
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), before)
	if err != nil || !ok || to == "" {
		return ""
	}
	if to = filepath.FromSlash(to); !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(name), to)
	}
	return to
}

// readRules reads a file of git, which may be a symlink as other files of a person's configuration are.
// One that does not exist has no rules.
func readRules(name string) (string, error) {
	if info, err := os.Stat(name); isGone(err) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	f, err := os.Open(name)
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes)) //nolint:forbidigo // maxIgnoreBytes
	return string(text), err
}

// excludesFile is the file of rules that hold in all repositories of a person.
func excludesFile(ctx context.Context, dir string) string {
	if out, err := git(ctx, dir, "config", "--type=path", "--get", "core.excludesFile"); err == nil {
		return strings.TrimRight(string(out), "\r\n")
	}
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "git", "ignore")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return "" // which does not exist
}

// foldsCase reports whether the case of names does not count in the repository of a directory.
func foldsCase(ctx context.Context, dir string) bool {
	out, err := git(ctx, dir, "config", "--type=bool", "--get", "core.ignoreCase")
	return err == nil && strings.TrimSpace(string(out)) == "true"
}

// repositoryVariables say which repository is meant. Git sets them for its hooks; here the directory says it.
var repositoryVariables = []string{"GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=", "GIT_COMMON_DIR=", "GIT_PREFIX=", "GIT_OBJECT_DIRECTORY="}

// git runs git in a directory. It must run nothing that the repository's configuration names: a program for
// core.fsmonitor above all.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(repositoryVariables, func(name string) bool { return strings.HasPrefix(variable, name) })
	})
	cmd.Env = append(cmd.Env, "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bounded{&out, maxTracked}, &said
	if err := cmd.Run(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, first)
	}
	return out.Bytes(), nil
}

// bounded fails when it is written more than left, which is maxTracked at first.
type bounded struct {
	out  io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxTracked>>20)
	}
	return b.out.Write(p)
}
