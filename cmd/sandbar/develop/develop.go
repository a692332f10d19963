// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package develop has the commands about what runs in a sandbox, and about its files, such as dev, sync, exec, logs, cp, open
// and top: flags and printing on client/session and client/devsync.
package develop

import (
	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// target is the person's workspace with what the commands of this package do there.
type target struct{ *cli.Target }

// Commands returns the commands of the package.
func Commands(t *cli.Target) []*cobra.Command {
	s := &target{t}
	return s.Diagnosed([]*cobra.Command{
		newAttachCommand(s), newCopyCommand(s), newDevCommand(s), newEnvCommand(s), newExecCommand(s), newKillCommand(s),
		newLogsCommand(s), newOpenCommand(s), newPortForwardCommand(s), newRestartCommand(s), newSyncCommand(s), newTopCommand(s),
	})
}
