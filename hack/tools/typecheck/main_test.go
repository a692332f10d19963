// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestErrorsOfOtherSystemsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		wants string // in the one error; empty if there is none
	}{
		"a module that compiles": {files: map[string]string{"p.go": "package p\n\nimport \"os\"\n\nvar Name = os.PathSeparator\n"}},
		"a name that only Linux has": {
			files: map[string]string{"p.go": "package p\n\nimport \"syscall\"\n\nfunc F() any { return syscall.SYS_EPOLL_CREATE1 }\n"},
			wants: "SYS_EPOLL_CREATE1",
		},
		"a file for Linux alone": {files: map[string]string{
			"p.go": "package p\n", "p_linux.go": "package p\n\nimport \"syscall\"\n\nvar F = syscall.SYS_EPOLL_CREATE1\n",
		}},
		"a test": {
			files: map[string]string{"p.go": "package p\n", "p_test.go": "package p\n\nimport \"syscall\"\n\nvar f = syscall.SYS_EPOLL_CREATE1\n"},
			wants: "SYS_EPOLL_CREATE1",
		},
		"a file that does not parse": {files: map[string]string{"p.go": "package p\n\nfunc {\n"}, wants: "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.files["go.mod"] = "module p\n\ngo 1.26\n"
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			checked, wrong, err := check(dir, "windows", "amd64", "./...")
			if err != nil || checked == 0 {
				t.Fatalf("%d packages, %v", checked, err)
			}
			switch {
			case c.wants == "" && len(wrong) > 0:
				t.Errorf("wrong: %q", wrong)
			case c.wants != "" && (len(wrong) == 0 || !strings.Contains(wrong[0], c.wants)):
				t.Errorf("%q does not name %s", wrong, c.wants)
			}
		})
	}
}
