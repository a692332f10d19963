// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package object has the commands about the objects of a workspace, such as get, create, label, suspend, claim and clone: flags and
// printing on client/object.
package object

import (
	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// target is the person's workspace with what the commands of this package do there.
type target struct{ *cli.Target }

// Commands returns the commands of the package.
func Commands(t *cli.Target) []*cobra.Command {
	s := &target{t}
	return append(s.Diagnosed([]*cobra.Command{
		newCreateCommand(s), newGetCommand(s), newDescribeCommand(s), newLabelCommand(s), newAnnotateCommand(s),
		newApplyCommand(s), newEditCommand(s), newUpdateCommand(s), newDeleteCommand(s), newWaitCommand(s),
		newSuspendCommand(s), newResumeCommand(s), newRenewCommand(s), newCloneCommand(s), newRouteCommand(s), newCurlCommand(s),
	}), newClaimCommand(s))
}
