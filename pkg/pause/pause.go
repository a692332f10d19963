// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package pause waits between two tries.
package pause

import (
	"context"
	"time"
)

// For waits, or returns the context's error as soon as that ends.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
