// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command stack runs a real kcp, a real Kubernetes node and kro on one Linux
// machine, for the demo, the tests and the benchmarks. See its package command
// for what it can do, and docs in hack/stack/README.md.
package main

import (
	"os"

	"github.com/sandbar-dev/sandbar/hack/stack/command"
)

func main() {
	os.Exit(command.Run(os.Args[1:]))
}
