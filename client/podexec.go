// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// InterruptedError means that a signal ended the connection to a command in a pod without a runner,
// to which none can be sent. The data plane then ends the command, unless its container has no env or no sh.
type InterruptedError struct{ Signal string }

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("left the command upon %s, which a pod without a runner cannot be sent", e.Signal)
}

// dial connects to the command. A pod without a runner says in its refusal what it speaks instead.
func (x *execution) dial(ctx context.Context) (*wsconn.Conn, error) {
	for {
		protocol, query := execwire.Protocol, x.query
		if x.pod {
			protocol, query = execwire.PodProtocol, x.podQuery
		}
		conn, res, err := wsconn.Dial(ctx, x.instance.plane.http, x.instance.URL("exec", "", query()), nil, maxExecOutput, protocol) //nolint:bodyclose // it has been read
		switch {
		case err == nil:
			return conn, nil
		case res == nil || res.StatusCode < http.StatusBadRequest:
			return nil, fmt.Errorf("calling exec: %w", err)
		case x.pod || x.opts.Dir != "" || res.Header.Get("Sec-Websocket-Protocol") != execwire.PodProtocol:
			return nil, fmt.Errorf("calling exec: %w", x.orTooLong(res, readError(res, "exec")))
		}
		x.pod = true
	}
}

// startCode reads from a container runtime's words why a command could not be started, as docker's
// command line does: there is nothing else that says it. It is 0 for words that are not known.
func startCode(message string) int {
	switch {
	case !strings.Contains(message, "exec"):
		return 0
	case strings.Contains(message, "executable file not found"), strings.Contains(message, "no such file or directory"):
		return 127
	case strings.Contains(message, "permission denied"), strings.Contains(message, "is a directory"), strings.Contains(message, "exec format error"):
		return 126
	default:
		return 0
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
