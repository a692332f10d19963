// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Source is a server with a clock of its own.
type Source string

// Sources.
const (
	// Runtime is the API server of the runtime cluster, where use is recorded.
	Runtime Source = "runtime"
	// KCP is kcp, where tenants' objects are deleted.
	KCP Source = "kcp"
)

// clockNoise is by how much a clock that is right may differ from the date of an answer, which
// counts whole seconds and takes its time to arrive.
const clockNoise = 2 * time.Second

// Clock compares this machine's clock with those of servers, by the dates of their answers. A nil
// Clock, or one that has heard of no server, has this machine's time alone.
type Clock struct {
	// Local reads this machine's clock; nil stands for time.Now.
	Local func() time.Time

	mu    sync.RWMutex
	heard map[Source]reading
}

// reading is what a server's clock said, and when that was by this process's clock.
type reading struct{ server, local time.Time }

// Now is this machine's time.
func (c *Clock) Now() time.Time {
	if c == nil || c.Local == nil {
		return time.Now()
	}
	return c.Local()
}

// Heard notes the date of an answer.
func (c *Clock) Heard(from Source, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard = map[Source]reading{}
	}
	c.heard[from] = reading{server: date.Round(0), local: c.Now()}
}

// of returns a server's time at a moment of this process; false if nothing was heard of it. Only the
// monotonic clock carries a reading forward: this machine's time may be set meanwhile.
func (c *Clock) of(from Source, now time.Time) (time.Time, bool) {
	if c == nil {
		return time.Time{}, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	last, ok := c.heard[from]
	if !ok {
		return time.Time{}, false
	}
	return last.server.Add(now.Sub(last.local)), true
}

// Ahead returns by how much this machine's clock is ahead of a server's, and is negative if it is
// behind; false if nothing was heard of that server. Less than two seconds may be noise.
func (c *Clock) Ahead(of Source) (time.Duration, bool) {
	now := c.Now()
	server, ok := c.of(of, now)
	if !ok {
		return 0, false
	}
	return now.Round(0).Sub(server.Round(0)), true
}

// Later is the time for a process that records: the later of its own and the runtime cluster's. A
// record that is too young keeps an instance for longer than need be; one that is too old would
// have it deleted.
func (c *Clock) Later() time.Time {
	now := c.Now()
	if server, ok := c.of(Runtime, now); ok && server.Round(0).Sub(now.Round(0)) > clockNoise {
		return server.Round(0)
	}
	return now
}

// Earlier is the time for a process that judges: the earliest of its own and the servers'.
func (c *Clock) Earlier() time.Time {
	now := c.Now()
	earliest := now
	for _, source := range []Source{Runtime, KCP} {
		server, ok := c.of(source, now)
		if ok && now.Round(0).Sub(server.Round(0)) > clockNoise && server.Before(earliest) {
			earliest = server.Round(0)
		}
	}
	return earliest
}

// Watch returns a configuration whose answers' dates are heard. Only answers below a path that begins
// so count: others may come from a pod, whose date is a tenant's word.
func (c *Clock) Watch(from Source, config *rest.Config, paths string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return listener{next, c, from, paths} })
	return config
}

// listener hears the dates of answers.
type listener struct {
	next  http.RoundTripper
	clock *Clock
	from  Source
	paths string
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, l.paths) {
		if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
			l.clock.Heard(l.from, date)
		}
	}
	return res, err
}

// WrappedRoundTripper lets client-go reach the transport below.
func (l listener) WrappedRoundTripper() http.RoundTripper { return l.next }
