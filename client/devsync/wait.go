// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"errors"
	"time"
)

// pollers are the clocks of a Watch.
type pollers struct {
	every time.Duration

	there, here   *time.Ticker
	remote, local <-chan time.Time
}

// poll begins to tick for a workspace that does not tell what changes in it.
func (p *pollers) poll() {
	p.there = time.NewTicker(p.every)
	p.remote = p.there.C
}

// watchFailed begins to tick for a directory that cannot be watched. It is true the first time.
func (p *pollers) watchFailed(err error) bool {
	if err == nil || p.here != nil {
		return false
	}
	p.here = time.NewTicker(rescanEvery)
	p.local = p.here.C
	return true
}

func (p *pollers) stop() {
	for _, t := range []*time.Ticker{p.there, p.here} {
		if t != nil {
			t.Stop()
		}
	}
}

// unavailable tells whether trying again later can help.
func unavailable(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && remote.Kind == Unavailable
}

// isSuspended reports whether the sandbox stays away until somebody resumes it.
func isSuspended(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && remote.Suspended
}

func retryAfter(err error) time.Duration {
	var remote *RemoteError
	if errors.As(err, &remote) {
		return remote.RetryAfter
	}
	return 0
}

// orEnd is nil when the context has ended, which is how a Watch ends well.
func orEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
