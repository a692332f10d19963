// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package start has the commands that lead from an address and a credential to a workspace with sandboxes: login, bind,
// trust, whoami and doctor.
package start

import (
	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// target is the person's workspace with what the commands of this package do there.
type target struct{ *cli.Target }

// Commands returns the commands of the package.
func Commands(t *cli.Target) []*cobra.Command {
	s := &target{t}
	return append([]*cobra.Command{newLoginCommand(s), newLogoutCommand(s), newBindCommand(s), newDoctorCommand(s), newWhoamiCommand(s), newCredentialCommand()},
		s.Diagnosed([]*cobra.Command{newTrustCommand(s), newUntrustCommand(s)})...)
}
