// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A tail goes to the pod as it came, behind the endpoint's upstreamPath. What it means there is up
// to whatever serves there, and servers decode more than they should: twice, by code pages, past
// broken bytes. A tail that any of them could read as one that leaves upstreamPath is refused, for
// control verbs, for proxy and for previews alike: an app's own paths have no such segments.

// mostDecodings is how often a tail may be encoded. Nothing that means well is encoded more often
// than three times; each decoding is another chance to hide a dot.
const mostDecodings = 5

// needsLook reports whether a character can be part of more than one reading of a path.
func needsLook(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`%\;?#`, r) }

// hasDotSegment reports whether a path has a segment of one or two dots, with backslashes as
// slashes, and without what some servers cut off: path parameters ("..;a=b"), and what a second
// reader takes for a query or a fragment once it is decoded.
func hasDotSegment(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if end := strings.IndexAny(segment, ";?#"); end >= 0 {
			segment = segment[:end]
		}
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// climbs reports whether a tail holds a segment that could leave the path it is appended to.
func climbs(tail string) bool {
	if !strings.ContainsFunc(tail, needsLook) {
		return hasDotSegment(tail)
	}
	for range mostDecodings {
		if hasOverlong(tail) || strings.IndexByte(tail, 0) >= 0 || hasDotSegment(tail) || hasDotSegment(norm.NFKC.String(visible(tail))) {
			return true
		}
		decoded := unescape(tail)
		if decoded == tail {
			return false
		}
		tail = decoded
	}
	return true
}

// visible is what is left for a reader that drops what it cannot show: bytes that are no UTF-8,
// control characters (browsers drop tabs and line ends), characters without a width and spaces.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}

// hasOverlong reports whether a text holds a character of ASCII in more bytes than it needs
// (RFC 3629 section 3). Such bytes are no UTF-8, and decoders that do not look read a dot.
func hasOverlong(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case 0xc0, 0xc1:
			return true
		case 0xe0: // further bytes of such a character are zero but for the last seven bits
			if continues(s[i+1:], 1) {
				return true
			}
		case 0xf0:
			if continues(s[i+1:], 2) {
				return true
			}
		case 0xf8:
			if continues(s[i+1:], 3) {
				return true
			}
		case 0xfc:
			if continues(s[i+1:], 4) {
				return true
			}
		}
	}
	return false
}

// continues reports whether a text begins with the rest of an overlong character: so many bytes in
// front of the last that hold nothing, or in the last of these one bit.
func continues(s string, before int) bool {
	if len(s) <= before {
		return false
	}
	for i := range before - 1 {
		if s[i] != 0x80 {
			return false
		}
	}
	return s[before-1]&^1 == 0x80 && s[before]&0xc0 == 0x80
}

// unescape decodes once what can be decoded, as a lenient reader would: a broken escape stays and
// does not keep the others from being decoded. %uXXXX is how IIS and browsers of old write a
// character.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		case s[i] == '%' && i+5 < len(s) && s[i+1]|0x20 == 'u' && isHex(s[i+2]) && isHex(s[i+3]) && isHex(s[i+4]) && isHex(s[i+5]):
			b.WriteRune(rune(unhex(s[i+2]))<<12 | rune(unhex(s[i+3]))<<8 | rune(unhex(s[i+4]))<<4 | rune(unhex(s[i+5])))
			i += 5
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
