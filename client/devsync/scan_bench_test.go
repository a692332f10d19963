// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// What a checkout of 3,000 files of 2 KB costs before any of it is sent.
func BenchmarkScan3000(b *testing.B) {
	dir := b.TempDir()
	for i := range 3000 {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i/50))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%04d", i)), bytes.Repeat([]byte{byte(i)}, 2<<10), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newTree(dir).scan(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
