// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package termsafe_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func TestWhatATerminalWouldObeyIsShown(t *testing.T) {
	for name, c := range map[string]struct{ in, text, plain string }{
		"text and tabs stay":                        {"a\tb\nç 世界\n", "a\tb\nç 世界\n", "a\tb\nç 世界\n"},
		"colours stay and end with the line":        {"\x1b[1;32mok\ngo", "\x1b[1;32mok\x1b[0m\ngo", `\x1b[1;32mok` + "\ngo"},
		"colours end with the text":                 {"\x1b[31mred", "\x1b[31mred\x1b[0m", `\x1b[31mred`},
		"moving the cursor is shown":                {"\x1b[2J\x1b[1A", `\x1b[2J\x1b[1A`, `\x1b[2J\x1b[1A`},
		"setting the title or clipboard is shown":   {"\x1b]52;c;aGk=\a", `\x1b]52;c;aGk=\x07`, `\x1b]52;c;aGk=\x07`},
		"a control sequence of one byte is shown":   {"\u009b2J", `\x9b2J`, `\x9b2J`},
		"what is not UTF-8 is shown":                {"\x9b2J\xff", `\x9b2J\xff`, `\x9b2J\xff`},
		"a carriage return begins the line again":   {"50%\r99%", "50%\r\x1b[K> 99%", `50%\x0d99%`},
		"two are as one":                            {"50%\r\r\n", "50%\n", `50%\x0d` + "\n"},
		"one at the end waits for what follows":     {"50%\r", "50%", `50%\x0d`},
		"colours end where the line begins again":   {"\x1b[32m50%\r99%", "\x1b[32m50%\x1b[0m\r\x1b[K> 99%", `\x1b[32m50%\x0d99%`},
		"erasing in the line is left out":           {"\x1b[2K\x1b[1Gnpm\x1b[K\x1b[0K!\n", "\r\x1b[K> npm!\n", `\x1b[2K\x1b[1Gnpm\x1b[K\x1b[0K!` + "\n"},
		"colours with colons are colours":           {"\x1b[38:2::255:0:0mred\x1b[4:3m\n", "\x1b[38:2::255:0:0mred\x1b[4:3m\x1b[0m\n", `\x1b[38:2::255:0:0mred\x1b[4:3m` + "\n"},
		"a line break of two characters":            {"a\r\n", "a\n", "a\n"},
		"text that turns its direction is shown":    {"a\u202eb", `a\u202eb`, `a\u202eb`},
		"a colour without an end is none":           {"\x1b[31", `\x1b[31`, `\x1b[31`},
		"a colour with a private parameter is none": {"\x1b[>4m", `\x1b[>4m`, `\x1b[>4m`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(new(termsafe.Output).Append(nil, []byte(c.in), []byte("> "))); got != c.text {
				t.Errorf("as output: got %q, want %q", got, c.text)
			}
			if got := termsafe.String(c.in); got != c.plain {
				t.Errorf("without: got %q, want %q", got, c.plain)
			}
		})
	}
}

// A piece may end between the two characters of a line break, and a progress bar where it begins again.
func TestACarriageReturnBetweenTwoPieces(t *testing.T) {
	for _, c := range []struct{ pieces, want string }{
		{"a\r|\nb", "a\nb"},
		{"a\r|b", "a\r\x1b[Kb"},
		{"a|\rb", "a\r\x1b[Kb"},
		{"a\r||\r|\n", "a\n"},
		{"a\r|\x1b[K|b", "a\r\x1b[Kb"},
	} {
		var out termsafe.Output
		var got []byte
		for piece := range strings.SplitSeq(c.pieces, "|") {
			got = out.Append(got, []byte(piece), nil)
		}
		if string(got) != c.want {
			t.Errorf("%q became %q, want %q", c.pieces, got, c.want)
		}
	}
	var out termsafe.Output
	out.Append(nil, []byte("a\r"), nil)
	out.EndLine()
	if got := string(out.Append(nil, []byte("b"), nil)); got != "b" {
		t.Errorf("after the line was ended: %q", got)
	}
}

var (
	colours   = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	lineAgain = []byte(termsafe.LineAgain)
)

func FuzzAppend(f *testing.F) {
	for _, seed := range []string{"", "a\n", "\x1b[31mx", "\x1b[31", "\x1b]0;t\a", "\u009bm", "\x1b[\x1b[0m", "\r\n\r", "\xc2\x9b", "a\r\x1b[2Kb", "\x1b[1G\r"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := new(termsafe.Output).Append(nil, in, nil)
		for _, r := range string(colours.ReplaceAll(bytes.ReplaceAll(out, lineAgain, nil), nil)) {
			if r != '\n' && r != '\t' && (r < 0x20 || 0x7f <= r && r < 0xa0) {
				t.Fatalf("%q became %q, with %q", in, out, r)
			}
		}
		if !utf8.Valid(out) || bytes.Count(in, []byte("\n")) != bytes.Count(out, []byte("\n")) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
