// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// The measures of a picture, in its own units.
const (
	cellWidth  = 8.4
	cellHeight = 18
	margin     = 14
	titleBar   = 30
	// leastCells is the width of a narrow recording, and mostCells that of a wide one: longer lines are wrapped.
	leastCells = 80
	mostCells  = 110
	// perLine is how long a line of a recording takes to appear, in seconds.
	perLine = 0.6
)

// The colours of the terminal in the pictures, which have to be read on white and on black pages.
const (
	background = "#16181d"
	foreground = "#d8dee9"
)

var palette = map[int]string{
	30: "#3b4252", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2", 37: "#d8dee9",
	90: "#7f848e",
}

// look is how a piece of text is drawn.
type look struct {
	colour        string
	bold, reverse bool
}

// span is a piece of a line with one look, at a cell.
type span struct {
	look
	at   int
	text string
}

// spans reads a line with SGR sequences, whose escape is written as ␛ in golden files. Others are not expected.
func spans(line string) []span {
	var found []span
	now, at := look{}, 0
	for part := range strings.SplitSeq(line, "␛") {
		text := part
		if rest, ok := strings.CutPrefix(part, "["); ok && strings.Contains(rest, "m") {
			var codes string
			codes, text, _ = strings.Cut(rest, "m")
			now = now.with(codes)
		}
		if text != "" {
			found = append(found, span{now, at, text})
			at += ansi.StringWidth(text)
		}
	}
	return found
}

// with returns the look after an SGR sequence.
func (l look) with(codes string) look {
	for code := range strings.SplitSeq(codes, ";") {
		switch n, _ := strconv.Atoi(code); n {
		case 0:
			l = look{}
		case 1:
			l.bold = true
		case 7:
			l.reverse = true
		case 39:
			l.colour = ""
		default:
			if colour, ok := palette[n]; ok {
				l.colour = colour
			}
		}
	}
	return l
}

// svg draws a terminal. The lines of a recording appear one after the other; where there are no animations, or a person
// wants none, all of them are there.
func svg(title string, lines []string, record bool) string {
	cells := leastCells
	if record {
		lines = wrapped(lines)
	}
	for _, line := range lines {
		for _, s := range spans(line) {
			cells = max(cells, s.at+ansi.StringWidth(s.text))
		}
	}
	width, height := 2*margin+float64(cells)*cellWidth, titleBar+margin+cellHeight*len(lines)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %d" width="%s" height="%d" role="img" aria-label="%s">`+"\n",
		number(width), height, number(width), height, escaped(title))
	fmt.Fprintf(&out, "<title>%s</title>\n<style>\n", escaped(title))
	out.WriteString("text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; fill: " + foreground + " }\n")
	if record {
		out.WriteString("@keyframes appear { from { opacity: 0 } to { opacity: 1 } }\n")
		out.WriteString("@media (prefers-reduced-motion: no-preference) { .line { animation: appear .01s step-end backwards } }\n")
	}
	out.WriteString("</style>\n")
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for i, colour := range []string{"#e06c75", "#e5c07b", "#98c379"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="15" r="5" fill="%s"/>`+"\n", 18+16*i, colour)
	}
	for i, line := range lines {
		delay := ""
		if record {
			delay = fmt.Sprintf(` style="animation-delay:%ss"`, number(perLine*float64(i)))
		}
		fmt.Fprintf(&out, `<g class="line"%s>`, delay)
		for _, s := range spans(line) {
			out.WriteString(s.draw(titleBar + cellHeight*i))
		}
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// draw is the text of a span, and what is behind it. textLength keeps the cells under each other in every font.
func (s span) draw(top int) string {
	x, wide := margin+float64(s.at)*cellWidth, float64(ansi.StringWidth(s.text))*cellWidth
	fill, weight := s.colour, ""
	behind := ""
	if s.reverse {
		if fill == "" {
			fill = foreground
		}
		behind = fmt.Sprintf(`<rect x="%s" y="%d" width="%s" height="%d" fill="%s"/>`, number(x), top, number(wide), cellHeight, fill)
		fill = background
	}
	if strings.TrimSpace(s.text) == "" {
		return behind
	}
	if fill != "" {
		fill = fmt.Sprintf(` style="fill:%s"`, fill)
	}
	if s.bold {
		weight = ` font-weight="bold"`
	}
	adjust := ""
	if utf8.RuneCountInString(s.text) > 1 {
		adjust = fmt.Sprintf(` textLength="%s" lengthAdjust="spacingAndGlyphs"`, number(wide))
	}
	return behind + fmt.Sprintf(`<text x="%s" y="%d"%s%s%s xml:space="preserve">%s</text>`, number(x), top+13, adjust, weight, fill, escaped(s.text))
}

// wrapped cuts the lines of a recording that are too long, as a terminal does.
func wrapped(lines []string) []string {
	var found []string
	for _, line := range lines {
		found = append(found, strings.Split(ansi.Hardwrap(line, mostCells, true), "\n")...)
	}
	return found
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 32) }

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // into memory
	return out.String()
}
