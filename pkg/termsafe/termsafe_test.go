// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package termsafe_test

import (
	"bytes"
	"regexp"
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
		"a carriage return that overwrites":         {"good\rbad", `good\x0dbad`, `good\x0dbad`},
		"a line break of two characters":            {"a\r\n", "a\n", "a\n"},
		"text that turns its direction is shown":    {"a\u202eb", `a\u202eb`, `a\u202eb`},
		"a colour without an end is none":           {"\x1b[31", `\x1b[31`, `\x1b[31`},
		"a colour with a private parameter is none": {"\x1b[>4m", `\x1b[>4m`, `\x1b[>4m`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(termsafe.Append(nil, []byte(c.in))); got != c.text {
				t.Errorf("with colours: got %q, want %q", got, c.text)
			}
			if got := termsafe.String(c.in); got != c.plain {
				t.Errorf("without: got %q, want %q", got, c.plain)
			}
		})
	}
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func FuzzAppend(f *testing.F) {
	for _, seed := range []string{"", "a\n", "\x1b[31mx", "\x1b[31", "\x1b]0;t\a", "\u009bm", "\x1b[\x1b[0m", "\r\n\r", "\xc2\x9b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := termsafe.Append(nil, in)
		for _, r := range string(colours.ReplaceAll(out, nil)) {
			if r != '\n' && r != '\t' && (r < 0x20 || 0x7f <= r && r < 0xa0) {
				t.Fatalf("%q became %q, with %q", in, out, r)
			}
		}
		if !utf8.Valid(out) || bytes.Count(in, []byte("\n")) != bytes.Count(out, []byte("\n")) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
