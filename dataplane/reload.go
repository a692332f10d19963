// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

const (
	// reloadMost is the longest time between two loads of a page that tells of something passing.
	reloadMost = 30 * time.Second
	// reloadPart is which part of the time that it has lasted a page waits until it is loaded again.
	reloadPart = 4
	// maxReloads bounds the previews of which that time is remembered; the page of another one is loaded
	// again as soon as in the beginning.
	maxReloads = 4096
)

// reloads remembers since when the page of a preview has told of something passing. An open tab asks for as
// long as it is open: of an app that nobody mends, more and more rarely.
type reloads struct {
	mu    sync.Mutex
	since *lru.Cache[string, reloaded]
}

type reloaded struct{ first, last time.Time }

func newReloads() *reloads {
	since, _ := lru.New[string, reloaded](maxReloads) // fails only for a size below one
	return &reloads{since: since}
}

// after is when the page of a host is loaded again, and least at the earliest.
func (r *reloads) after(host string, least time.Duration, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.since.Get(host)
	if !ok || now.Sub(seen.last) > 2*reloadMost { // nobody has looked meanwhile, or the app was there
		seen.first = now
	}
	seen.last = now
	r.since.Add(host, seen)
	return min(max(least, now.Sub(seen.first)/reloadPart), max(least, reloadMost)).Truncate(time.Second)
}

// pace has the page of a preview that tells of something passing loaded again more and more rarely. One that
// wakes is over soon, one way or the other.
func (p *previews) pace(x *exchange, e *refusal.Error) {
	if seconds := e.Refresh(); x.onPreview && seconds > 0 && e.Cause != refusal.CauseWaking && preview.WantsPage(x.request.Header) {
		e.Reload = int(p.reloads.after(x.request.Host, time.Duration(seconds)*time.Second, time.Now()).Seconds())
	}
}
