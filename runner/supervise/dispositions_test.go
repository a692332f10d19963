// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// A runner that nohup or a shell's background started gave commands that ignored HUP and INT too.
func TestChildrenOfARunnerThatIgnoresSignalsDoNot(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			signal.Ignore(sig)
			t.Cleanup(func() { signal.Reset(sig) })
			reaper, err := NewReaper()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(reaper.Close)
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { null.Close() })
			child, err := reaper.Start([]string{"/bin/sh", "-c", "kill -" + unix.SignalName(sig)[len("SIG"):] + " $$"}, nil, "/", [3]*os.File{null, null, null}, false)
			if err != nil {
				t.Fatal(err)
			}
			if status := <-child.Exited(); !status.Signaled() || status.Signal() != sig {
				t.Errorf("it ended with %#x, want by %v", status, sig)
			}
			if err := unix.Kill(os.Getpid(), sig); err != nil { // which ends this test if the runner heeds it now
				t.Fatal(err)
			}
		})
	}
}
