// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"syscall"
)

// Restart kills a part of the stack and waits until it serves again.
func (s *Stack) Restart(ctx context.Context, part string) error {
	_, err := s.Run(ctx, "restart", part)
	return err
}

// Pause stops a part of the stack without ending it; resume lets it go on.
func (s *Stack) Pause(ctx context.Context, part string) (resume func() error, err error) {
	pid, err := s.PID(ctx, part)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		return nil, fmt.Errorf("pausing %s: %w", part, err)
	}
	return func() error { return syscall.Kill(pid, syscall.SIGCONT) }, nil
}
