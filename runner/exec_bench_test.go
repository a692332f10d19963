// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"testing"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

func benchExec(b *testing.B, script string) *execClient {
	c := startSandbox(b, "", nil).startExec(shell1(script, "stdin"))
	c.read(func() bool { return c.id != "" })
	return c
}

// One byte of input, and its echo.
func BenchmarkExecRoundTrip(b *testing.B) {
	c := benchExec(b, "cat")
	for b.Loop() {
		c.out = ""
		c.send(execwire.ChannelStdin, "x")
		c.read(func() bool { return c.out == "x" })
	}
}

const benchOutput = 16 << 20

func BenchmarkExecOutput(b *testing.B) {
	c := benchExec(b, "while read x; do head -c 16777216 /dev/zero; done")
	b.SetBytes(benchOutput)
	for b.Loop() {
		from := c.offset
		c.send(execwire.ChannelStdin, "\n")
		c.read(func() bool { c.out = ""; return c.offset-from == benchOutput })
	}
}
