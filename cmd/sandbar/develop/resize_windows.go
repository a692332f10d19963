// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"time"
)

// resizeEvery is how often the size of a terminal is looked at: a console says nothing when it changes.
const resizeEvery = 250 * time.Millisecond

// onResize calls a function when the terminal has another size.
func onResize(ctx context.Context, fd int, do func()) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(resizeEvery)
		defer tick.Stop()
		for last := sizeOf(fd); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if now := sizeOf(fd); now != last {
				last = now
				do()
			}
		}
	}()
	return stop
}
