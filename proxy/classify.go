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
