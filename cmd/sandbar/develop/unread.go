// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package develop

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// unreadEvery is how often it is looked whether the context has ended, in milliseconds.
const unreadEvery = 500

// whileRead returns a context that ends when the output is a pipe whose reader has gone, as head goes, with an
// exitError as its cause. A write would show it, but a quiet app may write nothing for hours.
func whileRead(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	f, ok := out.(*os.File)
	if !ok {
		return ctx, stop
	}
	if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ctx, stop
	}
	go func() {
		polled := []unix.PollFd{{Fd: int32(f.Fd())}} // errors are reported unasked
		for ctx.Err() == nil {
			n, err := unix.Poll(polled, unreadEvery)
			switch {
			case n > 0:
				cancel(&cli.ExitError{Code: cli.ExitBrokenPipe})
			case err != nil && !errors.Is(err, unix.EINTR):
				return
			}
		}
	}()
	return ctx, stop
}

// orUnread is the reason why a context of whileRead ended, if that is why an error came.
func orUnread(ctx context.Context, err error) error {
	var exit *cli.ExitError
	if errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	return err
}
