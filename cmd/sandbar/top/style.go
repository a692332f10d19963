// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"image/color"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// style draws texts. Without colours it has bold and reverse alone, which say nothing that a text does not say too.
type style struct{ colours bool }

// The colours are the terminal's own, so that they suit its background.
const (
	red    = ansi.Red
	green  = ansi.Green
	yellow = ansi.Yellow
	cyan   = ansi.Cyan
	grey   = ansi.BrightBlack
)

func (s style) in(c color.Color, text string) string {
	if !s.colours || strings.TrimSpace(text) == "" {
		return text
	}
	return ansi.Style{}.ForegroundColor(c).Styled(text)
}

func (s style) bold(text string) string { return ansi.Style{}.Bold().Styled(text) }

// chosen draws the row that keys are about: all of it in reverse.
func (s style) chosen(text string) string { return ansi.Style{}.Reverse(true).Styled(text) }

// state is the colour of a state.
func (s style) state(rank int, text string) string {
	switch {
	case rank <= 1: // Failed, Degraded
		return s.in(red, text)
	case rank <= 5: // on its way
		return s.in(yellow, text)
	case rank == 6: // Ready
		return s.in(green, text)
	default:
		return s.in(grey, text)
	}
}
