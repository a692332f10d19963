// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package develop

import (
	"context"
	"os"
	"syscall"
)

// onResize calls a function when the terminal may have another size.
func onResize(ctx context.Context, _ int, do func()) (stop func()) {
	return onSignal(ctx, func(os.Signal) { do() }, syscall.SIGWINCH)
}
