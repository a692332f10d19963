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
			var out termsafe.Output
			if got := string(out.EndLine(out.Append(nil, []byte(c.in), []byte("> ")))); got != c.text {
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
	if got := string(out.EndLine(nil)); got != "" {
		t.Errorf("at the end of the line: %q", got)
	}
	if got := string(out.Append(nil, []byte("b"), nil)); got != "b" {
		t.Errorf("after the line was ended: %q", got)
	}
}

// A log of more than a buffer is cut anywhere, also within a character or a colour.
func TestACharacterOrAColourBetweenTwoPieces(t *testing.T) {
	for _, text := range []string{"ç 世界 \U0001f600\n", "a\x1b[1;38:2::255:0:0mred\x1b[0m\n", "50%\x1b[2K\x1b[1G99%\n"} {
		want := string(new(termsafe.Output).Append(nil, []byte(text), nil))
		for cut := range len(text) {
			var out termsafe.Output
			got := string(out.Append(out.Append(nil, []byte(text[:cut]), nil), []byte(text[cut:]), nil))
			// A colour ends with its piece.
			if strings.ReplaceAll(got, "\x1b[0m", "") != strings.ReplaceAll(want, "\x1b[0m", "") {
				t.Errorf("%q cut at %d became %q, want %q", text, cut, got, want)
			}
		}
	}
	for text, want := range map[string]string{"a\xe4\xb8": `a\xe4\xb8`, "a\x1b[3": `a\x1b[3`, "a\x1b": `a\x1b`, "\x1b[" + strings.Repeat("1", 100): `\x1b[` + strings.Repeat("1", 100)} {
		var out termsafe.Output
		if got := string(out.EndLine(out.Append(nil, []byte(text), nil))); got != want {
			t.Errorf("%q became %q once the line was ended, want %q", text, got, want)
		}
	}
	var out termsafe.Output
	if got := string(out.Append(out.Append(nil, []byte("a\xe4"), nil), []byte("b"), nil)); got != `a\xe4b` {
		t.Errorf("the beginning of a character that does not come became %q", got)
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
		var pieces termsafe.Output
		out := pieces.EndLine(pieces.Append(pieces.Append(nil, in[:len(in)/2], nil), in[len(in)/2:], nil))
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
