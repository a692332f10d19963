// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A shell says "not found" of a script that an editor on Windows has saved, as it does of one that is not there.
func TestAStartCommandWhoseScriptHasNoInterpreterIsExplained(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"run.sh": "#!/bin/sh\r\necho hello\r\n", "good.sh": "#!/bin/sh\nexit 127\n", "node.js": "#!/no/such/node\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code          int
		command, says string
	}{
		{127, "exec ./run.sh", "carriage return (CRLF)"},
		{127, "cd . && FOO=1 './run.sh' --port 3000", "carriage return (CRLF)"},
		{126, filepath.Join(dir, "node.js") + "; true", `names the interpreter "/no/such/node"`},
		{1, "exec ./run.sh", ""},
		{127, "exec ./good.sh", ""},
		{127, "exec ./fifo . " + dir + " /dev/tty", ""},
		{127, "exec vite", ""},
	} {
		got := scriptHint(c.code, c.command, dir)
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%d of %q: %q, want %q", c.code, c.command, got, c.says)
		}
	}
}
