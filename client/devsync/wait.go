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
	// polls is true when reading the directory is the only way to learn of its changes.
	polls bool
}

// poll begins to tick for a workspace that does not tell what changes in it.
func (p *pollers) poll() {
	p.there = time.NewTicker(p.every)
	p.remote = p.there.C
}

// read begins to tick for a directory that has to be read every now and then.
func (p *pollers) read(every time.Duration) {
	p.here = time.NewTicker(every)
	p.local = p.here.C
}

// readAlone ticks for a directory that has to be read because nobody tells what changes in it. It is true
// the first time.
func (p *pollers) readAlone() bool {
	if p.polls {
		return false
	}
	p.polls = true
	p.here.Reset(rescanEvery)
	return true
}

// hasRead puts off the next reading of a directory that takes long to read.
func (p *pollers) hasRead(every, took time.Duration) {
	next := max(every, wholePart*took)
	if p.polls {
		next = max(rescanEvery, rescanPart*took)
	}
	p.here.Reset(next)
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
