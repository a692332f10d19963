// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package netcheck finds out, from inside of pods, whether a network policy holds between them, and
// whether names resolve under one. The runner's program has it as a command, so that no further image is needed; the controllers
// start it in pods (providers/infrastructure/netcheck). It depends on the standard library.
package netcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Port is where Listen listens.
const Port = 8080

// What Dial finds out, as exit codes of the program. Those that other programs and Go's runtime
// end with are none of them.
const (
	// Blocked means that the address cannot be reached, as the policy wants it.
	Blocked = 40
	// Reached means that it can be, in spite of the policy.
	Reached = 41
	// NoNetwork means that the address which no policy is about cannot be reached either, so
	// that the other says nothing.
	NoNetwork = 42
)

// None stands for an address that is not given.
const None = "-"

const (
	// patience is how long a network may take to do what is expected: a policy reaches a new pod
	// some time after its start.
	patience = 20 * time.Second
	// dialTimeout bounds one attempt; a policy may drop packets silently.
	dialTimeout = time.Second
	pause       = 500 * time.Millisecond
	// failures in a row are no accident.
	failures = 3
)

// Listen accepts connections, and closes them, until ctx ends.
func Listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", Port))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}

// Dialer tries addresses. The zero value uses the network.
type Dialer struct {
	// dial reports whether an address can be reached; a variable for tests.
	dial func(ctx context.Context, address string) bool
}

// Dial finds out whether the address blocked cannot be reached, while open, unless it is None, can
// be. The result is one of the exit codes.
func (d Dialer) Dial(ctx context.Context, open, blocked string) int {
	if d.dial == nil {
		d.dial = dial
	}
	if open != None && !d.until(ctx, open, true, 1) {
		return NoNetwork
	}
	if d.until(ctx, blocked, false, failures) {
		// The network may have gone away meanwhile.
		if open != None && !d.until(ctx, open, true, 1) {
			return NoNetwork
		}
		return Blocked
	}
	return Reached
}

// until tries an address until it was reached, or not reached, several times in a row.
func (d Dialer) until(ctx context.Context, address string, reached bool, times int) bool {
	return until(ctx, func(ctx context.Context) bool { return d.dial(ctx, address) == reached }, times)
}

// until tries something until it went as wanted several times in a row, within patience.
func until(ctx context.Context, wanted func(context.Context) bool, times int) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for inARow := 0; ; {
		if went := wanted(ctx); ctx.Err() != nil {
			return false
		} else if went {
			inARow++
		} else {
			inARow = 0
		}
		if inARow == times {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

func dial(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
