// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"strings"
)

// spoken is what the first bytes of a client are of.
type spoken int

const (
	// undecided: what came so far can still become HTTP.
	undecided spoken = iota
	http1Spoken
	http2Spoken
	otherSpoken
)

func (s spoken) String() string {
	return [...]string{"undecided", "http1", "http2", "tcp"}[s]
}

const (
	// preface is what a client of HTTP/2 begins with (RFC 9113 section 3.4).
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// maxMethod is the longest method that is one; those of RFC 9110 and WebDAV are shorter.
	maxMethod = 32
	// maxFirst is how much of a request line is looked at. A line that goes on is HTTP: nothing else that begins so is
	// that long.
	maxFirst = 8 << 10
)

// classify reports what a client speaks, by all it has said so far. HTTP/1 is a whole request line, with its version: a line such as "GET
// key" is that of a Redis.
func classify(first []byte) spoken {
	if len(first) >= len(preface) && string(first[:len(preface)]) == preface {
		return http2Spoken
	}
	if strings.HasPrefix(preface, string(first[:min(len(first), len(preface))])) {
		return undecided
	}
	return classifyLine(first)
}

// classifyLine is for a request line of HTTP/1: METHOD TARGET HTTP/1.x.
func classifyLine(first []byte) spoken {
	method, rest, ended := bytes.Cut(first, []byte(" "))
	if !isMethod(method) {
		return otherSpoken
	}
	if !ended {
		return undecided
	}
	target, version, ended := bytes.Cut(rest, []byte(" "))
	if !isTarget(target) {
		return otherSpoken
	}
	switch {
	case !ended && len(first) >= maxFirst:
		return http1Spoken
	case !ended:
		return undecided
	case len(target) == 0:
		return otherSpoken
	}
	return classifyVersion(version)
}

func classifyVersion(version []byte) spoken {
	const name = "HTTP/1."
	if len(version) <= len(name) {
		if strings.HasPrefix(name, string(version)) {
			return undecided
		}
		return otherSpoken
	}
	if string(version[:len(name)]) != name || version[len(name)] != '0' && version[len(name)] != '1' {
		return otherSpoken
	}
	if len(version) == len(name)+1 {
		return undecided
	}
	if end := version[len(name)+1]; end != '\r' && end != '\n' {
		return otherSpoken
	}
	return http1Spoken
}

// isMethod reports whether a text is a method, or the beginning of one.
func isMethod(text []byte) bool {
	for i, c := range text {
		isLetter, isMark := 'A' <= c && c <= 'Z', c == '-' || c == '_'
		if !isLetter && (i == 0 || !isMark) {
			return false
		}
	}
	return len(text) <= maxMethod && (len(text) > 0)
}

// isTarget reports whether a text is what a request asks for, or the beginning of it.
func isTarget(text []byte) bool {
	for i, c := range text {
		isStart := c == '/' || c == '*' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '['
		if c <= ' ' || c == 0x7f || i == 0 && !isStart {
			return false
		}
	}
	return true
}

// mostOnHTTP is how many bytes classifyOnHTTP looks at, at most.
const mostOnHTTP = 16

// Beginnings of the PROXY protocol, versions 1 and 2.
const (
	proxyUnknown = "PROXY UNKNOWN\r\n"
	proxyV2      = "\r\n\r\n\x00\r\nQUIT\n"
)

var proxyTCP = []string{"PROXY TCP4 ", "PROXY TCP6 "}

// classifyOnHTTP reports what a client speaks on a port that is one of HTTP. Other protocols are those that begin with a byte
// that no text has, as TLS does, and the PROXY protocol; all else is for net/http to read, or to refuse.
//
// The attack: a line that is almost one of HTTP ("get / HTTP/1.1") passes as something else, and a baseline that reads it has
// requests on this connection whose X-Forwarded-For the client has made up. So classify does not decide here.
func classifyOnHTTP(first []byte) spoken {
	switch {
	case len(first) == 0:
		return undecided
	case isBinary(first[0]):
		return otherSpoken
	case first[0] != 'P' && first[0] != '\r':
		return http1Spoken
	}
	const isHTTP2 = len("PRI ") // which begins nothing else
	for _, beginning := range []string{preface[:isHTTP2], proxyUnknown, proxyV2} {
		switch begins, whole := beginsAs(first, beginning); {
		case begins && !whole:
			return undecided
		case begins && beginning == preface[:isHTTP2]:
			return http2Spoken
		case begins:
			return otherSpoken
		}
	}
	return classifyProxied(first)
}

// classifyProxied is for version 1 of the PROXY protocol, whose line has an address where one of HTTP has its version.
func classifyProxied(first []byte) spoken {
	for _, beginning := range proxyTCP {
		switch begins, whole := beginsAs(first, beginning); {
		case !begins:
		case !whole || len(first) == len(beginning):
			return undecided
		case first[len(beginning)] != 'H':
			return otherSpoken
		}
	}
	return http1Spoken
}

// beginsAs reports whether bytes begin as a text does, as far as they go, and whether they have all of it.
func beginsAs(first []byte, text string) (begins, whole bool) {
	n := min(len(first), len(text))
	return string(first[:n]) == text[:n], n == len(text)
}

// isBinary reports whether no line of text begins with a byte.
func isBinary(c byte) bool {
	return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c >= 0x7f
}
