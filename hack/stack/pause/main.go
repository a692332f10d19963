// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command pause holds a pod's namespaces open and does nothing else. It is the
// first process of a pod that shares its process namespace, so it also collects
// what others orphan.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
