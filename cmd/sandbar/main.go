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

	"github.com/sandbar-dev/sandbar/cmd/sandbar/catalogue"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/develop"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/start"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

// unstamped is the version of a program whose build sets none.
const unstamped = "dev"

func main() {
	info, ok := debug.ReadBuildInfo()
	version = installedVersion(version, info, ok)
	cli.Main(newRootCommand)
}

// newRootCommand returns the program with its commands, in the groups of sandbar --help.
func newRootCommand() *cobra.Command {
	return cli.NewRoot(version,
		cli.Group{ID: "start", Title: "Start:", Commands: start.Commands},
		cli.Group{ID: "sandboxes", Title: "Sandboxes:", Commands: object.Commands},
		cli.Group{ID: "develop", Title: "Develop:", Commands: develop.Commands},
		cli.Group{ID: "catalogue", Title: "Catalogue:", Commands: catalogue.Commands},
		cli.Group{ID: "program", Title: "This program:", Commands: func(*cli.Target) []*cobra.Command { return []*cobra.Command{newVersionCommand()} }},
	)
}
