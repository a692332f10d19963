// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

const (
	filesPerDir = 50
	bigBytes    = 50 << 20
	// hotFiles is how many files are edited again and again. Mutagen watches the 50 that were
	// changed last, and looks for changes of others every ten seconds.
	hotFiles = 20
	// bigLines has a line break every 80 bytes, bigLine none.
	bigLines = "big/lines.txt"
	bigLine  = "big/line.txt"
)

// path is where the file of a number lies.
func path(i int) string { return fmt.Sprintf("src/d%03d/f%05d.ts", i/filesPerDir, i) }

// source is what a file of a project may be: some 2 KB of text.
func source(i, edit int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// file %d, edit %09d\n", i, edit)
	for line := range 20 + i%30 {
		fmt.Fprintf(&b, "export const value%d = compute(%d, %d, %q);\n", line, i, line*i, "text of the line")
	}
	return b.Bytes()
}

// big is a large file; every one of its lines is another. Without line breaks it is one line.
func big(newlines bool, edit int) []byte {
	b := bytes.NewBuffer(make([]byte, 0, bigBytes+128))
	end := byte(' ')
	if newlines {
		end = '\n'
	}
	for line := 0; b.Len() < bigBytes; line++ {
		mark := 0
		if b.Len() >= bigBytes/2 && b.Len() < bigBytes/2+80 {
			mark = edit
		}
		fmt.Fprintf(b, "%012d %09d %s%c", line, mark, "the quick brown fox jumps over the lazy dog and goes on", end)
	}
	return b.Bytes()
}

// write writes files below a directory.
func write(dir string, files map[string][]byte) error {
	for path, content := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return fmt.Errorf("writing the tree: %w", err)
		}
		if err := os.WriteFile(full, content, 0o644); err != nil {
			return fmt.Errorf("writing the tree: %w", err)
		}
	}
	return nil
}

// tree is n files, and the large ones if asked.
func tree(n int, large bool) map[string][]byte {
	files := make(map[string][]byte, n+2)
	for i := range n {
		files[path(i)] = source(i, 0)
	}
	if large {
		files[bigLines], files[bigLine] = big(true, 0), big(false, 0)
	}
	return files
}

// checkout is n files in a directory of their own.
func checkout(n int) map[string][]byte {
	files := make(map[string][]byte, n)
	for i := range n {
		files[fmt.Sprintf("d%02d/f%04d.ts", i/filesPerDir, i)] = source(i, 1)
	}
	return files
}
