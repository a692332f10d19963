// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"encoding/binary"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

// Opcodes of WebSocket frames (RFC 6455 section 5.2). Those from opClose on are control frames.
const (
	opContinuation = 0x0
	opBinary       = 0x2
	opClose        = 0x8
)

const (
	finalBit = 0x80
	maskBit  = 0x80
	opBits   = 0x0f
	lenBits  = 0x7f

	// maxHeader is the length of the longest header of a frame: 2 bytes, 8 of a length and 4 of a mask.
	maxHeader = 14
)

// header is that of a frame.
type header struct {
	final  bool
	op     byte
	masked bool
	// size is how long the header is, and payload what follows it.
	size    int
	payload uint64
}

// readHeader reads the header that b begins with; ok is false while a part of it is missing.
func readHeader(b []byte) (h header, ok bool) {
	if len(b) < 2 {
		return h, false
	}
	h = header{final: b[0]&finalBit != 0, op: b[0] & opBits, masked: b[1]&maskBit != 0, size: 2, payload: uint64(b[1] & lenBits)}
	switch h.payload {
	case 126:
		h.size = 4
	case 127:
		h.size = 10
	}
	lengthEnd := h.size
	if h.masked {
		h.size += 4
	}
	if len(b) < h.size {
		return h, false
	}
	switch lengthEnd {
	case 4:
		h.payload = uint64(binary.BigEndian.Uint16(b[2:]))
	case 10:
		h.payload = binary.BigEndian.Uint64(b[2:])
	}
	return h, true
}

// frame is a whole frame of a server, whose frames are not masked.
type frame struct {
	header
	data []byte
}

// nextFrame takes the frame that b begins with; ok is false while a part of it is missing.
func nextFrame(b []byte) (f frame, rest []byte, ok bool) {
	h, ok := readHeader(b)
	if !ok || uint64(len(b)-h.size) < h.payload {
		return f, b, false
	}
	end := h.size + int(h.payload)
	return frame{header: h, data: b[h.size:end]}, b[end:], true
}

// isControl reports whether the frame may stand between those of a message.
func (h *header) isControl() bool { return h.op >= opClose }

// messageOf is an unmasked frame with a whole message.
func messageOf(op byte, data ...byte) []byte {
	b := []byte{finalBit | op}
	switch n := len(data); {
	case n < 126:
		b = append(b, byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, data...)
}

// maxStatus bounds what is kept of a message on the channel of the status, in bytes.
const maxStatus = 8 << 10

// ending follows a server's bytes, and keeps the message on the channel of the status.
type ending struct {
	// head is the part of a header that is there.
	head [maxHeader]byte
	n    int
	// left is what is missing of a frame's payload, and named is set if its first byte names a channel.
	left  uint64
	named bool
	// inStatus is set within the status, and whole behind it.
	inStatus, whole bool
	status          []byte
}

// add takes the bytes that come next.
func (e *ending) add(b []byte) {
	for len(b) > 0 && !e.whole {
		if e.left > 0 {
			part := b[:min(e.left, uint64(len(b)))]
			b, e.left = b[len(part):], e.left-uint64(len(part))
			e.take(part)
			continue
		}
		e.head[e.n] = b[0]
		e.n, b = e.n+1, b[1:]
		if h, ok := readHeader(e.head[:e.n]); ok {
			e.n, e.left, e.named = 0, h.payload, !h.isControl() && h.op != opContinuation
		}
	}
}

// take takes a part of a frame's payload.
func (e *ending) take(part []byte) {
	if e.named {
		e.inStatus, e.named = part[0] == execwire.ChannelStatus, false
		part = part[1:]
	}
	if !e.inStatus {
		return
	}
	e.status = append(e.status, part[:min(len(part), maxStatus-len(e.status))]...)
	if e.whole = e.left == 0; e.whole {
		e.inStatus = false
	}
}
