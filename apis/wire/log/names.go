// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package logwire

// The parameters of GET /logs. A boolean without a value is true.
const (
	// ParamFollow and ParamTimestamps are booleans.
	ParamFollow     = "follow"
	ParamTimestamps = "timestamps"
	// ParamFormat is FormatText, which is the default, or FormatJSON.
	ParamFormat = "format"
	// ParamStream is Stdout, Stderr or AllStreams, which is the default.
	ParamStream = "stream"
	// ParamTail is a number of lines, ParamSince a duration or a time (RFC 3339).
	ParamTail  = "tail"
	ParamSince = "since"
	// ParamOffset is where to begin, without ParamTail and ParamSince. ParamLog is the value of
	// IDHeader that the offset belongs to.
	ParamOffset = "offset"
	ParamLog    = "log"
)

// The formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// The streams.
const (
	Stdout     = "stdout"
	Stderr     = "stderr"
	AllStreams = "all"
)
