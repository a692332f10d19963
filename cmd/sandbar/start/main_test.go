// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// newRootCommand returns the program with the commands of this package.
var newRootCommand = clitest.Program("start", Commands)

func TestMain(m *testing.M) { clitest.Main(m, newRootCommand) }

// world is a workspace and a data plane to run the commands of this package against.
type world struct{ *clitest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{clitest.New(t, newRootCommand)}
}
