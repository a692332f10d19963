// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// mostHelpAllocations bounds what sandbar --help makes once its packages are initialized, some 1,400 pieces of memory: all
// commands with their flags, and the text. e2e TestHelpStartsWithLittle bounds what comes before.
const mostHelpAllocations = 5_000

// A count is the same beside load, where a time is not; make bench-cli measures the time.
func TestHelpMakesLittle(t *testing.T) {
	var out bytes.Buffer
	made := testing.AllocsPerRun(3, func() {
		out.Reset()
		root := newRootCommand()
		root.SetArgs([]string{"--help"})
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f allocations", made)
	if !strings.Contains(out.String(), "This program:") || made > mostHelpAllocations {
		t.Errorf("%.0f allocations, at most %d are meant; it prints %d bytes", made, mostHelpAllocations, out.Len())
	}
}

func TestHelpHasTheCommandsInGroups(t *testing.T) {
	w := newWorld(t)
	_, stdout, _ := w.Run(t, "--help")
	stdout, _, _ = strings.Cut(stdout, "\nFlags:")
	clitest.CompareGolden(t, "help.golden", stdout)
	if strings.Contains(stdout, "Additional Commands") {
		t.Error("a command is in no group")
	}
}
