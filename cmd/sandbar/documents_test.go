// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/doccommands"
)

func TestTheCommandsOfDocumentsExist(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs/*.md", "../../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	if n := doccommands.Check(t, newRootCommand, files...); n < 150 {
		t.Errorf("it has found %d commands, which is too few", n)
	}
}
