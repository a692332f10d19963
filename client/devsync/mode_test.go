// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileThatComesHasTheRightsThatTheUmaskLeaves(t *testing.T) {
	defer func(was fs.FileMode) { umask = was }(umask)
	existing := func(mode fs.FileMode) fs.FileInfo {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	directory, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		umask      fs.FileMode
		existing   fs.FileInfo
		executable bool
		want       fs.FileMode
	}{
		{0o022, nil, false, 0o644},
		{0o022, nil, true, 0o755},
		{0o077, nil, false, 0o600},
		{0o077, nil, true, 0o700},
		{0o002, nil, true, 0o775},
		{0o022, existing(0o600), false, 0o600},
		{0o022, existing(0o600), true, 0o700},
		{0o077, existing(0o664), false, 0o664},
		{0o077, existing(0o755), false, 0o644},
		{0o077, directory, false, 0o600},
	} {
		umask = c.umask
		if got := FileMode(c.existing, c.executable); got != c.want {
			t.Errorf("with the umask %o, in place of %v, executable %t: %o, want %o", c.umask, c.existing, c.executable, got, c.want)
		}
	}
}
