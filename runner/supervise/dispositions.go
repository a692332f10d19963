// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// resetInherited has children begin with the default action of the signals that this process was started
// with ignored: HUP by nohup, INT by a shell for what it starts in its background. A process passes what
// it ignores on to its children, and an ignored HUP would leave TERM to be a command's end.
//
// Go gives a child the default action of the signals that it handles itself. They stay without effect here:
// nothing reads the channel. INT and HUP are the only ones that Go leaves ignored (os/signal).
func resetInherited() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
