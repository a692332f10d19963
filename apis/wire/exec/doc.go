// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package execwire is the format of commands: GET /exec of the runner, which the data plane serves as
// the verb exec. Programs import it as execwire, because package exec is the standard library's.
//
// # A command
//
// A client opens a WebSocket with the subprotocol [Protocol]. The first byte of each binary message is
// its channel; the rest is content. Protocol has the channels of Kubernetes' remote command protocol
// ([PodProtocol]) and three more:
//
//	channel             sender   content
//	0 ChannelStdin      client   input
//	1 ChannelStdout     runner   output; with a terminal, all output
//	2 ChannelStderr     runner   output
//	3 ChannelStatus     runner   Status, the last message
//	4 ChannelResize     client   Size
//	5 ChannelSession    runner   Session, the first message; later, a gap in the output
//	6 ChannelSignal     client   Signal
//	7 ChannelCommand    client   a part of Start, before all else; an empty one ends it
//	255 ChannelClose    client   one byte: ChannelStdin ends the input, ChannelStdout the command
//
// A command is in the address ([ParamCommand] and others), or, with [ParamMessage] alone there, in messages:
// the client sends the JSON of [Start] in parts of any size up to [MaxInputBytes], and then an empty part. The
// runner answers with the Session, or with a Status that says why it did not start the command
// ([NewRefusal]). In an address such an error is an answer of HTTP.
//
// A client whose connection broke opens another one with [ParamID] and [ParamOffset]. The offset is
// [Session.Offset] plus all bytes of output that came since, of both channels, plus all gaps.
//
// Without parameters and without an upgrade, GET /exec answers [List].
//
// # Golden files
//
// testdata has each message once, and names.json has the numbers and names. Tests of this package, the
// runner and the client read these files; other SDKs' tests can too.
//
// # Boundary
//
// The package depends on the standard library alone and builds everywhere.
package execwire
