// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// ErrNoCommands means that commands cannot be listed, joined or ended there: in a pod without a runner,
// whose exec is Kubernetes' own, or by a runner of an earlier version.
var ErrNoCommands = errors.New("only commands in a sandbox with a runner of this version can be listed, joined and ended")

// Command is a command that Exec began, or another client. Its ID names it for Attach and EndCommand.
type Command = execwire.Command

// Commands lists the commands of a sandbox, the oldest first. It needs the right to run some.
func (i *Instance) Commands(ctx context.Context) ([]Command, error) {
	var list execwire.List
	err := i.DoJSON(ctx, Request{Verb: "exec"}, nil, &list)
	if isWithoutCommands(err) {
		return nil, fmt.Errorf("%w (%w)", ErrNoCommands, err)
	}
	return list.Commands, err
}

// isWithoutCommands reports whether an error of the verb exec is that of a pod without a runner, or of a
// runner that knows no list.
func isWithoutCommands(err error) bool {
	var answer *CallError
	return errors.As(err, &answer) && (answer.Code == http.StatusUpgradeRequired || answer.Reason == "MalformedRequest")
}

func isCommandNotFound(err error) bool {
	var answer *CallError
	return errors.As(err, &answer) && answer.Reason == execwire.CodeNotFound
}

// Attach attaches to a command that runs, in place of the client that has it now, which gets
// ErrReplaced. It begins with the output that the runner still holds, and is like Exec from there on;
// opts.Command, Dir and Container mean nothing.
func (i *Instance) Attach(ctx context.Context, id string, opts ExecOptions) (int, error) {
	return (&execution{instance: i, opts: opts, id: id, joined: true}).run(ctx)
}

// EndCommand sends a signal, such as SIGHUP, to a command and its process group, and returns when the
// runner has it. Without a signal it ends the command (HUP and TERM, and KILL two seconds later) and
// returns its exit code. The client that has the command gets the rest of its output.
func (i *Instance) EndCommand(ctx context.Context, id, signal string) (int, error) {
	query := url.Values{execwire.ParamID: {id}, execwire.ParamObserve: {"true"}}
	conn, res, err := wsconn.Dial(ctx, i.plane.http, i.URL("exec", "", query), nil, maxExecOutput, execwire.Protocol) //nolint:bodyclose // it has been read
	if err != nil {
		if res != nil && res.StatusCode >= http.StatusBadRequest {
			err = readError(res, "exec")
		}
		if isWithoutCommands(err) || res != nil && res.Header.Get("Sec-Websocket-Protocol") == execwire.PodProtocol {
			err = fmt.Errorf("%w (%w)", ErrNoCommands, err)
		}
		return 0, fmt.Errorf("ending the command: %w", err)
	}
	defer func() { _ = conn.CloseNow() }()
	if signal != "" {
		err := writeJSON(ctx, conn, execwire.ChannelSignal, execwire.Signal{Signal: signal})
		if err == nil {
			// The runner answers the close after it has read what came before.
			err = conn.Close(websocket.CloseNormalClosure, "")
		}
		if err != nil {
			return 0, fmt.Errorf("signalling the command: %w", err)
		}
		return 0, nil
	}
	if err := write(ctx, conn, execwire.ChannelClose, []byte{execwire.ChannelStdout}); err != nil {
		return 0, fmt.Errorf("ending the command: %w", err)
	}
	for {
		p, err := conn.Read(ctx)
		switch {
		case err != nil:
			return 0, fmt.Errorf("waiting for the end of the command: %w", err)
		case len(p) > 0 && p[0] == execwire.ChannelStatus:
			return exitCode(p[1:])
		}
	}
}
