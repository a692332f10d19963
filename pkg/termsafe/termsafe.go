// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package termsafe makes text that others wrote fit for a terminal. What a sandbox prints is
// chosen by whoever runs code in it, and a terminal obeys control sequences: they can rewrite
// what was printed before, set the clipboard or type into the shell (Mutagen, CVE-2023-30844).
//
// Colours pass, since development servers use them; everything else that a terminal would act on
// is shown in Go's notation (\x1b). What is not for a terminal needs nothing of this package.
package termsafe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reset ends all colours.
const reset = "\x1b[0m"

// maxColour bounds a colour sequence; "\x1b[38;2;255;255;255;48;2;255;255;255m" has 37 bytes.
const maxColour = 64

// String is Append for a string, without colours.
func String(s string) string {
	return string(appendText(nil, []byte(s), false))
}

// Line is String for what has to stay on one line, a file's name for example: line feeds and tabs are
// shown as well.
func Line(s string) string {
	return oneLine.Replace(String(s))
}

var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`)

// Append appends text to dst. Line feeds and tabs stay, a carriage return before a line feed
// goes, colours stay and end with the line, or with the text.
func Append(dst, text []byte) []byte {
	return appendText(dst, text, true)
}

func appendText(dst, text []byte, colours bool) []byte {
	coloured := false
	for i := 0; i < len(text); {
		if colours {
			if n := colour(text[i:]); n > 0 {
				dst = append(dst, text[i:i+n]...)
				coloured = true
				i += n
				continue
			}
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n':
			if coloured {
				dst = append(dst, reset...)
				coloured = false
			}
			dst = append(dst, '\n')
		case r == '\r' && i+1 < len(text) && text[i+1] == '\n':
		case r == utf8.RuneError && size == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[i])
		case r == '\t' || !acts(r):
			dst = append(dst, text[i:i+size]...)
		case r < 0x100:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		i += size
	}
	if coloured {
		dst = append(dst, reset...)
	}
	return dst
}

// acts tells whether a terminal does something else with a character than to show it: control
// characters, line separators, and those that turn the direction of writing, by which one
// text looks like another (Trojan Source, CVE-2021-42574).
func acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Bidi_Control, r)
}

// colour returns the length of the colour sequence (SGR) that text begins with, 0 for none.
func colour(text []byte) int {
	if len(text) < 3 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i := 2; i < len(text) && i < maxColour; i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1
		case '0' <= c && c <= '9', c == ';':
		default:
			return 0
		}
	}
	return 0
}
