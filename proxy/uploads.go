// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// uploads are the connections to backends that requests with a body are on.
//
// The kernel's own limit (TCP_USER_TIMEOUT) cannot tell a backend that reads nothing, as in a debugger or at its work, and whose
// node says so each time it is asked, from a node that is gone: it ends both. For a request without a body that makes no
// difference, since its header has room at a backend that reads nothing. So what has a body on it is without that limit, and
// it is looked at here when its node was last heard of.
type uploads struct {
	log *slog.Logger
	// untaken is BackendUntakenTimeout, and shut is ShutTimeout, outside of tests.
	untaken, shut time.Duration

	mu sync.Mutex
	on map[net.Conn]*uploading
}

// uploading is a connection that has requests with a body on it.
type uploading struct {
	requests int
	lost     bool
}

// flight is what the kernel knows of what a connection has sent.
type flight struct {
	// unacknowledged says that something was sent which the other side has not acknowledged, and waiting that something
	// was not sent yet.
	unacknowledged, waiting bool
	// shut says that the other side has no room for more.
	shut bool
	// silent is how long nothing was acknowledged, not even that it is there.
	silent time.Duration
}

// isLost reports whether the other side is gone. One without room is asked each two minutes at the latest.
func (u *uploads) isLost(f flight) bool {
	switch {
	case !f.unacknowledged && !f.waiting:
		return false // it is for keep-alive to find out
	case f.unacknowledged && !f.shut:
		return f.silent >= u.untaken
	}
	return f.silent >= u.shut
}

// begin has a request with a body on a connection, until end is called, which reports whether the connection was closed since the
// other side is gone.
func (u *uploads) begin(conn net.Conn) (end func() (lost bool)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	on := u.on[conn]
	if on == nil {
		on = &uploading{}
		u.on[conn] = on
		u.limit(conn, 0)
	}
	on.requests++
	return func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		if on.requests--; on.requests == 0 {
			delete(u.on, conn)
			u.limit(conn, u.untaken)
		}
		return on.lost
	}
}

// limit sets the kernel's limit; 0 is none.
func (u *uploads) limit(conn net.Conn, within time.Duration) {
	if err := limitUntakenOf(conn, within); err != nil { // it has ended
		u.log.Debug("a connection keeps its limit", "error", err)
	}
}

// watch closes the connections whose other side is gone, until ctx ends.
func (u *uploads) watch(ctx context.Context) {
	ticker := time.NewTicker(u.untaken / 6)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			u.look()
		}
	}
}

func (u *uploads) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn, on := range u.on {
		if f, err := flightOf(conn); err == nil && u.isLost(f) {
			on.lost = true
			u.log.Warn("a backend acknowledges nothing of a request any more", "address", conn.RemoteAddr().String(), "for", f.silent)
			_ = conn.Close()
		}
	}
}
