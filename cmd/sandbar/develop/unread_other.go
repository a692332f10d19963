// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package develop

import (
	"context"
	"io"
)

// whileRead is for systems where only a write shows that a pipe's reader has gone.
func whileRead(ctx context.Context, _ io.Writer) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func orUnread(_ context.Context, err error) error { return err }
