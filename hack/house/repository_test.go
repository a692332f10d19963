// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's, as tests of this package see it.
const root = "../.."

// read returns a file of the repository by its slash-separated path. Go's test cache remembers that
// the test opened it, and the folder, so that a kept result is not used after a file was changed,
// added or removed: commands such as git and go list open files behind the cache's back.
func read(t *testing.T, path string) string {
	t.Helper()
	path = filepath.Join(root, filepath.FromSlash(path))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	watch(t, filepath.Dir(path))
	return string(content)
}

// watched are the folders that were opened for the test cache.
var watched = map[string]bool{}

// watch makes Go's test cache depend on the names, sizes and times of a folder's entries.
func watch(t *testing.T, dir string) {
	t.Helper()
	if watched[dir] {
		return
	}
	watched[dir] = true
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := opened.Readdirnames(1); err != nil && err != io.EOF {
		t.Fatal(err)
	}
}

// generated is the line that marks generated Go code.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// texts returns the repository's Go and Markdown files that people of ours write.
func texts(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.go", "*.md")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v: %s", err, &stderr)
	}
	var paths []string
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if slices.Contains(strings.Split(path, "/"), "testdata") || missing(path) {
			continue
		}
		if strings.HasSuffix(path, ".go") && generated.MatchString(read(t, path)) {
			continue
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		t.Fatal("git lists no Go or Markdown file")
	}
	return paths
}

// missing reports whether a file that git tracks was removed from the working tree.
func missing(path string) bool {
	_, err := os.Lstat(filepath.Join(root, filepath.FromSlash(path)))
	return os.IsNotExist(err)
}
