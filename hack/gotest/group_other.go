// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os/exec"

// Elsewhere only go test itself can be reached, and not politely.
func inGroup(*exec.Cmd) {}

func interrupt(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
