// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command go runs a program in a sandbox, as a program of your own would: go run . web ls -l
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sandbar-dev/sandbar/client"
)

func main() {
	code, err := run(context.Background(), os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, name string, command []string) (exitCode int, err error) {
	sandboxes, namespace, err := client.FromKubeconfig()
	if err != nil {
		return 0, err
	}
	defer sandboxes.Close()
	sandbox, err := sandboxes.Instance(ctx, client.SandboxRunners, namespace, name)
	if err != nil {
		return 0, err
	}
	return sandbox.Exec(ctx, client.ExecOptions{Command: command, Stdout: os.Stdout, Stderr: os.Stderr})
}
