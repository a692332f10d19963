// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

func TestMain(m *testing.M) { runTests(m, newRootCommand) }

// newWorld returns a world with all commands.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newTestWorld(t, newRootCommand)
}
