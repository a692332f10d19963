// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// FreePorts returns n different loopback ports that nobody listens on. All are
// held open until the last is found, so that none is given twice. Another
// program may still take one before it is used: the part then fails to listen,
// and the next start of the stack chooses again.
func FreePorts(n int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	var listen net.ListenConfig
	for range n {
		l, err := listen.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
