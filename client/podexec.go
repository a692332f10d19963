// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/coder/websocket"
)

// podProtocol is version 5 of Kubernetes' remote command protocol, without the channels of a runner:
// one cannot come back to a command, nor send it signals.
const podProtocol = "v5.channel.k8s.io"

// InterruptedError means that a signal ended the connection to a command in a pod without a runner,
// to which none can be sent. The command may go on.
type InterruptedError struct{ Signal string }

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("left the command upon %s, which a pod without a runner cannot be sent", e.Signal)
}

// dial connects to the command. A pod without a runner says in its refusal what it speaks instead.
func (x *execution) dial(ctx context.Context) (*websocket.Conn, error) {
	for {
		protocol, query := execProtocol, x.query
		if x.pod {
			protocol, query = podProtocol, x.podQuery
		}
		conn, res, err := websocket.Dial(ctx, x.instance.URL("exec", "", query()).String(), &websocket.DialOptions{ //nolint:bodyclose // the package has read it, and gives a copy
			HTTPClient: x.instance.plane.http, Subprotocols: []string{protocol}, CompressionMode: websocket.CompressionDisabled,
		})
		switch {
		case err == nil:
			return conn, nil
		case res == nil || res.StatusCode < http.StatusBadRequest:
			return nil, fmt.Errorf("calling exec: %w", err)
		case x.pod || x.opts.Dir != "" || res.Header.Get("Sec-Websocket-Protocol") != podProtocol:
			return nil, fmt.Errorf("calling exec: %w", readError(res))
		}
		x.pod = true
	}
}

// podQuery is query in Kubernetes' form.
func (x *execution) podQuery() url.Values {
	q := url.Values{"command": x.opts.Command, "stdout": {"true"}}
	if x.opts.Container != "" {
		q.Set("container", x.opts.Container)
	}
	if x.opts.Stdin != nil {
		q.Set("stdin", "true")
	}
	if x.opts.TTY {
		q.Set("tty", "true") // a terminal has one output
	} else {
		q.Set("stderr", "true")
	}
	return q
}
