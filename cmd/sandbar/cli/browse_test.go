// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// The address is a data plane's word, and xdg-open starts any program that a scheme has.
func TestABrowserIsStartedForPagesAlone(t *testing.T) {
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nprintf '%s' \"$*\" >"+opened+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for address, page := range map[string]bool{
		"https://a.preview.example.com/x?y#z": true, "http://localhost:3000/": true,
		"file:///etc/passwd": false, "javascript:alert(1)": false, "vscode://x/y": false, "ssh://host": false, "mailto:a@example.com": false,
		"--help": false, "/usr/bin/calc": false, "https:///x": false, "https:x": false, "": false, " https://a.example.com": false, "https://a\n--x": false,
	} {
		_ = os.Remove(opened)
		err := Browse(t.Context(), address)
		got, _ := os.ReadFile(opened)
		if page && (err != nil || string(got) != address) || !page && (err == nil || len(got) > 0) {
			t.Errorf("%q: opened %q, %v", address, got, err)
		}
	}
}
