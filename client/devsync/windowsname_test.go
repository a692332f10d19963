// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import "testing"

func TestWhichNamesWindowsCannotHave(t *testing.T) {
	for name, can := range map[string]bool{
		"a": true, "a.b.c": true, ".env": true, "com": true, "COM": true, "com10": true, "console": true, "aux-1": true, "nul_": true, "lpt": true, " a": true, "ä": true,
		"a:b": false, "a?": false, "*": false, `a"b`: false, "a|b": false, "<a": false, "a>": false, `a\b`: false,
		"a.": false, "a ": false, "a..": false, "con": false, "CON": false, "Con.txt": false, "nul.tar.gz": false, "aux .c": false,
		"com1": false, "COM9.log": false, "lpt0": false, "COM¹": false, "conin$": false,
	} {
		if reason := checkWindows(name); (reason == "") != can {
			t.Errorf("%q: %q, want that it can be: %t", name, reason, can)
		}
	}
}
