// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/doccommands"
)

func TestTheCommandsOfDocumentsExist(t *testing.T) {
	if n := doccommands.CheckAll(t, newRootCommand, "../.."); n < 150 {
		t.Errorf("it has found %d commands, which is too few", n)
	}
}
