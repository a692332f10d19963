// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An ordinary container's program keeps its environment, its directory and its arguments when the runner stands before it.
func TestAProgramIsSupervisedAsItsContainerWouldHaveStartedIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	token := "SANDBAR_CONTROL_TOKEN=" + testToken
	for name, test := range map[string]struct {
		environ, command []string
		program          string
		port             int
		child            []string
		fails            bool
	}{
		"a name is looked for in PATH": {
			environ: []string{token, "A=1"}, command: []string{"server", "-v", "a b"}, program: filepath.Join(dir, "server"), port: 3000, child: []string{"A=1"},
		},
		"a path counts from the container's directory": {
			environ: []string{token}, command: []string{"./server"}, program: filepath.Join(dir, "server"), port: 3000,
		},
		"its PORT stays, and is the port that is looked at": {
			environ: []string{token, "PORT=8080"}, command: []string{"server"}, program: filepath.Join(dir, "server"), port: 8080, child: []string{"PORT=8080"},
		},
		"a PORT that is none is the program's business": {
			environ: []string{token, "PORT=http"}, command: []string{"server"}, program: filepath.Join(dir, "server"), port: 3000, child: []string{"PORT=http"},
		},
		"without a program":              {environ: []string{token}, fails: true},
		"a program that is not there":    {environ: []string{token}, command: []string{"no-such-program"}, fails: true},
		"a runner that anybody may call": {command: []string{"server"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Supervising(test.environ, test.command, dir)
			if (err != nil) != test.fails {
				t.Fatalf("the error is %v", err)
			}
			if test.fails {
				return
			}
			if want := append([]string{test.program}, test.command[1:]...); !cmp.Equal(c.Command, want) || c.CommandDir != dir || c.Port != test.port {
				t.Errorf("it runs %q in %s with port %d", c.Command, c.CommandDir, c.Port)
			}
			if len(c.ChildEnv) != len(test.child) || len(test.child) > 0 && !cmp.Equal(c.ChildEnv, test.child) {
				t.Errorf("its environment is %q", c.ChildEnv)
			}
		})
	}
}
