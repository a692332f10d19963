// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package execwire

// The subprotocols of GET /exec. PodProtocol is what the exec of Kubernetes' pods speaks; Protocol is
// the same with two channels more.
const (
	Protocol    = "v1.exec.sandbar.dev"
	PodProtocol = "v5.channel.k8s.io"
)

// The channels: the first byte of each message.
const (
	ChannelStdin   = 0
	ChannelStdout  = 1
	ChannelStderr  = 2
	ChannelStatus  = 3
	ChannelResize  = 4
	ChannelSession = 5 // to the client, in Protocol
	ChannelSignal  = 6 // from the client, in Protocol
	ChannelCommand = 7 // from the client, in Protocol
	ChannelClose   = 255
)

// CloseReplaced is the code with which the runner closes a client's connection when another client took its
// place: it does not come back by itself, or the two would take the command from each other for ever.
const CloseReplaced = 4001

// MaxInputBytes bounds one message of a client, with its channel, and MaxCommandBytes a Start: more than
// Linux takes for a program's arguments, in JSON.
const (
	MaxInputBytes   = 64 << 10
	MaxCommandBytes = 4 << 20
)

// The parameters of GET /exec. A boolean without a value is true.
const (
	// ParamCommand is given once for each argument.
	ParamCommand = "command"
	// ParamDir is a directory of the workspace.
	ParamDir = "dir"
	// ParamStdin and ParamTTY are booleans, ParamRows and ParamColumns the terminal's first size.
	ParamStdin   = "stdin"
	ParamTTY     = "tty"
	ParamRows    = "rows"
	ParamColumns = "columns"
	// ParamID and ParamOffset attach to a command that runs.
	ParamID     = "id"
	ParamOffset = "offset"
	// ParamMessage, a boolean, begins a command that messages of ChannelCommand carry. It stands alone.
	ParamMessage = "message"
	// ParamObserve, a boolean, attaches to the command of ParamID without its output and without
	// replacing its client.
	ParamObserve = "observe"
)

// CodeNotFound is the code of an answer to ParamID: there is no such command.
const CodeNotFound = "CommandNotFound"

// CapabilityMessage is in the runner's capabilities if it knows ParamMessage. One that does not answers 400
// before the upgrade, because it misses ParamCommand.
const CapabilityMessage = "exec.message"
