// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package termsafe makes text that others wrote fit for a terminal. What a sandbox prints is
// chosen by whoever runs code in it, and a terminal obeys control sequences: they can rewrite
// what was printed before, set the clipboard or type into the shell (Mutagen, CVE-2023-30844).
//
// In a program's output colours pass, and a line may begin again, since development servers use both;
// everything else that a terminal would act on is shown in Go's notation (\x1b). What is not for a terminal
// needs nothing of this package.
package termsafe

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// resetColours ends all colours.
const resetColours = "\x1b[0m"

// maxColour bounds a colour sequence; "\x1b[38;2;255;255;255;48;2;255;255;255m" has 37 bytes.
const maxColour = 64

// LineAgain begins the line again on a terminal, and takes away what it had: the output of an Output has it
// for a carriage return, and nothing that the sandbox writes gets through as it.
const LineAgain = "\r\x1b[K"

// String returns a string without colours.
func String(s string) string {
	dst, _ := appendText(nil, []byte(s), false, nil, false)
	return string(dst)
}

// Line is String for what has to stay on one line, a file's name for example: line feeds and tabs are
// shown as well.
func Line(s string) string {
	return oneLine.Replace(String(s))
}

var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`)

// Output is what a program writes, piece by piece. The zero value is at its beginning.
//
// A character or a colour of which a piece has the beginning is held until the next piece: a long log is cut where
// a buffer was full. Line feeds and tabs stay. Colours stay and end with the line, or with the piece. A carriage return, or
// the cursor's way to the first column, begins the line again as progress bars do; it can take away what
// the program wrote in this line, and nothing before it. Erasing in the line is left out, because nothing
// stands behind the cursor.
type Output struct {
	// again: the line begins again with what follows, unless it ends first.
	again bool
	// half is the beginning of a character or of a colour.
	half []byte
}

// Append appends a piece to dst. A line that begins again begins with prefix, which is a terminal's already.
func (o *Output) Append(dst, piece, prefix []byte) []byte {
	text := piece
	if len(o.half) > 0 {
		text = append(o.half, piece...)
	}
	whole := len(text) - begun(text)
	dst, o.again = appendText(dst, text[:whole], true, append([]byte(LineAgain), prefix...), o.again)
	o.half = append([]byte(nil), text[whole:]...)
	return dst
}

// EndLine appends what was held, as what it is by itself, and forgets a carriage return at the end of the last
// piece: the caller ends the line.
func (o *Output) EndLine(dst []byte) []byte {
	dst, _ = appendText(dst, o.half, true, nil, false)
	o.again, o.half = false, nil
	return dst
}

// begun returns how many bytes at the end of a text begin a character or a colour, and do not end it.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return n
			}
			break
		}
	}
	at := bytes.LastIndexByte(text, 0x1b)
	if at < 0 || len(text)-at >= maxColour {
		return 0
	}
	for i, c := range text[at+1:] {
		if i == 0 && c != '[' || i > 0 && (c < '0' || c > '9') && c != ';' && c != ':' {
			return 0
		}
	}
	return len(text) - at
}

// appendText appends text. Colours pass, and lines begin with again when they begin again, if it is output.
func appendText(dst, text []byte, output bool, again []byte, pending bool) ([]byte, bool) {
	coloured := false
	reset := func() {
		if coloured {
			dst = append(dst, resetColours...)
			coloured = false
		}
	}
	for i := 0; i < len(text); {
		if output {
			if n, begins := inLine(text[i:]); n > 0 {
				pending = pending || begins
				i += n
				continue
			}
		}
		if pending && text[i] != '\n' {
			reset()
			dst = append(dst, again...)
		}
		pending = false
		if n := colour(text[i:]); output && n > 0 {
			dst = append(dst, text[i:i+n]...)
			coloured = true
			i += n
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == '\n' {
			reset()
		}
		if r != '\r' || i+1 == len(text) || text[i+1] != '\n' {
			dst = appendRune(dst, r, text[i:i+size])
		}
		i += size
	}
	reset()
	return dst, pending
}

// appendRune appends a character, or shows it if a terminal would act on it.
func appendRune(dst []byte, r rune, as []byte) []byte {
	switch {
	case r == utf8.RuneError && len(as) == 1:
		return fmt.Appendf(dst, `\x%02x`, as[0])
	case r == '\n', r == '\t', !acts(r):
		return append(dst, as...)
	case r < 0x100:
		return fmt.Appendf(dst, `\x%02x`, r)
	default:
		return fmt.Appendf(dst, `\u%04x`, r)
	}
}

// inLine returns the length of what moves the cursor to the first column, or erases in the line, at the
// beginning of a text, and whether it is the former; 0 for anything else.
func inLine(text []byte) (n int, begins bool) {
	if text[0] == '\r' {
		return 1, true
	}
	for _, first := range []string{"\x1b[G", "\x1b[0G", "\x1b[1G"} {
		if bytes.HasPrefix(text, []byte(first)) {
			return len(first), true
		}
	}
	for _, erase := range []string{"\x1b[K", "\x1b[0K", "\x1b[1K", "\x1b[2K"} {
		if bytes.HasPrefix(text, []byte(erase)) {
			return len(erase), false
		}
	}
	return 0, false
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
		case '0' <= c && c <= '9', c == ';', c == ':': // ITU T.416 separates the parts of a colour by colons
		default:
			return 0
		}
	}
	return 0
}
