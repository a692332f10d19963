// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"syscall"
)

// refusedError means that the baseline has refused a connection by itself.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// probe makes a connection to a baseline and ends it.
//
// A port that no process listens on is refused by the pod (RST), a port that a NetworkPolicy keeps from proxies, or that has no
// pod, by a node on the way (ICMP), if it is answered at all. The error of connect(2) is the same. The first is what clients had before, and a *refusedError;
// of the second the Service's clients know nothing.
func probe(ctx context.Context, address string) error {
	d := newDialer(BackendUntakenTimeout)
	limit, asked := d.Control, &refusals{}
	defer asked.close()
	d.Control = func(network, address string, conn syscall.RawConn) error {
		return errors.Join(limit(network, address, conn), asked.hold(network, conn))
	}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) && asked.areOfPeers() {
			return &refusedError{err}
		}
		return err //nolint:wrapcheck // for the log, as it is
	}
	_ = conn.Close()
	return nil
}
