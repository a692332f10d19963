// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbar is for the people who use sandboxes: it calls the verbs of their instances
// from a terminal or a script. It reads the same kubeconfig as kubectl.
//
// Data goes to stdout, progress and errors to stderr. It exits 0 for success, 1 for a failure,
// 2 for wrong usage, and 130 when it was interrupted. exec and attach exit with the command's
// exit code, and with 125 for a failure of their own, 126 for a program that cannot be run and 127 for
// one that is not there.
package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

// unstamped is the version of a program whose build sets none.
const unstamped = "dev"

func main() {
	info, ok := debug.ReadBuildInfo()
	version = installedVersion(version, info, ok)
	runProgram(newRootCommand)
}

// newRootCommand returns the program with its commands, in the groups of sandbar --help.
func newRootCommand() *cobra.Command {
	return newRoot(version,
		group{"start", "Start:", startCommands},
		group{"sandboxes", "Sandboxes:", objectCommands},
		group{"develop", "Develop:", developCommands},
		group{"catalogue", "Catalogue:", catalogueCommands},
		group{"program", "This program:", func(*target) []*cobra.Command { return []*cobra.Command{newVersionCommand()} }},
	)
}

// startCommands are the commands that lead to a workspace with sandboxes.
func startCommands(s *target) []*cobra.Command {
	return append([]*cobra.Command{newLoginCommand(s), newLogoutCommand(s), newBindCommand(s), newDoctorCommand(s), newWhoamiCommand(s), newCredentialCommand()},
		s.diagnosed([]*cobra.Command{newTrustCommand(s), newUntrustCommand(s)})...)
}

// objectCommands are the commands about the objects of a workspace.
func objectCommands(s *target) []*cobra.Command {
	return append(s.diagnosed([]*cobra.Command{
		newCreateCommand(s), newGetCommand(s), newDescribeCommand(s), newLabelCommand(s), newAnnotateCommand(s),
		newApplyCommand(s), newEditCommand(s), newUpdateCommand(s), newDeleteCommand(s), newWaitCommand(s),
		newSuspendCommand(s), newResumeCommand(s), newRenewCommand(s),
	}), newClaimCommand(s))
}

// developCommands are the commands about what runs in a sandbox, and about its files.
func developCommands(s *target) []*cobra.Command {
	return s.diagnosed([]*cobra.Command{
		newAttachCommand(s), newCopyCommand(s), newDevCommand(s), newEnvCommand(s), newExecCommand(s), newKillCommand(s),
		newLogsCommand(s), newOpenCommand(s), newPortForwardCommand(s), newRestartCommand(s), newSyncCommand(s), newTopCommand(s),
	})
}

// catalogueCommands are the commands about what a workspace can have.
func catalogueCommands(s *target) []*cobra.Command {
	return s.diagnosed([]*cobra.Command{newExplainCommand(s), newTemplatesCommand(s)})
}
