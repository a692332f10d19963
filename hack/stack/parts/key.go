// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
)

// keyLength is how many hex digits of the hash name a folder: 64 bits, far
// beyond chance among the handful of versions that a cache ever holds.
const keyLength = 16

// Key returns the name of the part's folder in the cache, for its sources in
// dir and that Go version.
func (p Part) Key(dir, goVersion string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s\n", goVersion, runtime.GOOS, runtime.GOARCH)
	// The version itself follows from go.mod; its modules stand for it here.
	fmt.Fprintf(h, "%q cgo=%t links=%q copies=%q\n", p.goBuildArgs("", strings.Join(p.VersionOf, "+")), p.CGO, p.Links, sortedPairs(p.CopyFrom))
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != dir && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		// Tests and hidden files do not change what is built.
		if entry.Type().IsRegular() && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("reading the sources of %s: %w", p.Name, err)
	}
	sort.Strings(files)
	for _, path := range files {
		if err := hashFile(h, dir, path); err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", p.Name, err)
		}
	}
	return p.Name + "-" + hex.EncodeToString(h.Sum(nil))[:keyLength], nil
}

// hashFile writes a file's name and content so that neither can be mistaken for
// the other.
func hashFile(h io.Writer, dir, path string) error {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h, "%q %d\n%s", filepath.ToSlash(rel), len(content), content)
	return err
}

func sortedPairs(m map[string]string) []string {
	pairs := make([]string, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, k+"="+v)
	}
	sort.Strings(pairs)
	return pairs
}

func goVersion(ctx context.Context, p Part, dir string) (string, error) {
	return p.goRun(ctx, dir, "env", "GOVERSION")
}
