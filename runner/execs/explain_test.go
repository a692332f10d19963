// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A script that an editor on Windows has saved is there, and the kernel says that it is not.
func TestAScriptWhoseInterpreterIsNotThereSaysSo(t *testing.T) {
	m := manager(t, Options{})
	for name, c := range map[string]struct {
		content string
		says    []string
	}{
		"CRLF behind #!":                 {"#!/bin/sh\r\necho hello\r\n", []string{"carriage return (CRLF): save it with LF line ends"}},
		"CRLF behind an option":          {"#!/no/such/program -x\r\n", []string{"carriage return"}},
		"an interpreter that is missing": {"#! /no/such/program -x\necho hello\n", []string{`names the interpreter "/no/such/program"`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.sh")
			if err := os.WriteFile(path, []byte(c.content), 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := m.Start(Command{Args: []string{path}, Env: os.Environ(), Dir: t.TempDir()})
			var failed *StartError
			if !errors.As(err, &failed) || failed.Code != CodeNotFound {
				t.Fatalf("got %v", err)
			}
			for _, want := range append(c.says, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, without %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "no such file") {
				t.Errorf("it says %q of a file that is there", err)
			}
		})
	}
}

func TestAScriptWhoseInterpreterIsThereIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{script, dir, filepath.Join(dir, "gone")} {
		if err := CheckScript(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAProgramThatIsNotThereIsNotTakenForAScript(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone")
	if err := explain(missing, os.ErrNotExist); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, []byte("\x7fELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := explain(binary, os.ErrNotExist); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v of a binary without its loader", err)
	}
}

func TestACommandThatIsTooLongForTheKernelNamesTheNumbers(t *testing.T) {
	m := manager(t, Options{})
	_, err := m.Start(Command{Args: []string{"true", strings.Repeat("x", 128<<10)}, Env: os.Environ(), Dir: t.TempDir()})
	var failed *StartError
	if !errors.As(err, &failed) || failed.Code != CodeNotRunnable || !strings.Contains(err.Error(), "128 KiB") || !strings.Contains(err.Error(), "file or the command's input") {
		t.Errorf("got %v", err)
	}
}
