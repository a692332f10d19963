// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalogue has the commands about what a workspace can have: templates, baselines and explain.
package catalogue

import (
	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// target is the person's workspace with what the commands of this package do there.
type target struct{ *cli.Target }

// Commands returns the commands of the package.
func Commands(t *cli.Target) []*cobra.Command {
	s := &target{t}
	return s.Diagnosed([]*cobra.Command{newBaselinesCommand(s), newExplainCommand(s), newTemplatesCommand(s)})
}
