// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newRootCommand) }

// newRootCommand returns the program with the commands of this package.
func newRootCommand() *cobra.Command {
	return cli.NewRoot("dev", cli.Group{ID: "develop", Title: "develop:", Commands: Commands})
}

// world is a workspace and a data plane to run the commands of this package against.
type world struct{ *clitest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{clitest.New(t, newRootCommand)}
}
