// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckPath(t *testing.T) {
	name := strings.Repeat("n", MaxNameBytes)
	for what, test := range map[string]struct {
		path string
		ok   bool
	}{
		"a file":                                {"a.txt", true},
		"a file in directories":                 {"src/app/index.ts", true},
		"a hidden file":                         {".env", true},
		"spaces and other scripts":              {"meine Dateien/größe 日本.txt", true},
		"three dots":                            {".../a", true},
		"a staging name further down":           {"a/.sandbar", true},
		"a name that begins like staging":       {".sandbarignore", true},
		"a name of the greatest length":         {name, true},
		"the greatest depth":                    {strings.Repeat("d/", MaxPathDepth-1) + "f", true},
		"nothing":                               {"", false},
		"an absolute path":                      {"/etc/passwd", false},
		"a parent":                              {"..", false},
		"a parent inside":                       {"a/../../b", false},
		"the directory itself":                  {".", false},
		"the directory itself inside":           {"a/./b", false},
		"a trailing slash":                      {"a/", false},
		"a doubled slash":                       {"a//b", false},
		"a NUL":                                 {"a\x00b", false},
		"a newline":                             {"a\nb", false},
		"an escape":                             {"a\x1b[2J", false},
		"a control character beyond ASCII":      {"a\u0085b", false},
		"a backslash":                           {`a\..\b`, false},
		"bytes that are not UTF-8":              {"a\xff", false},
		"an overlong encoding of a slash":       {"a\xc0\xaf..", false},
		"the staging directory":                 {".sandbar", false},
		"a file of the staging directory":       {".sandbar/revision", false},
		"the staging directory in another case": {".Sandbar/x", false},
		"a name that is too long":               {name + "n", false},
		"a path that is too deep":               {strings.Repeat("d/", MaxPathDepth) + "f", false},
		"a path that is too long":               {strings.Repeat(name[:99]+"/", 11), false},
	} {
		t.Run(what, func(t *testing.T) {
			err := CheckPath(test.path)
			if (err == nil) != test.ok {
				t.Fatalf("CheckPath(%q) = %v", test.path, err)
			}
			var refusal *Error
			if err != nil && (!errors.As(err, &refusal) || refusal.Code != CodeInvalidPath) {
				t.Errorf("the error is %#v, want one with code %s", err, CodeInvalidPath)
			}
		})
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{
		"a", "a/b", "../a", "a/..", "/a", "a//b", ".sandbar/x", ".SANDBAR", "a\x00", "a\\b", "ſandbar", ".ſandbar/x", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if !filepath.IsLocal(p) || path.Clean(p) != p || p == "." {
			t.Errorf("%q was accepted and is not local and clean", p)
		}
		if !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\n\r\t\\") {
			t.Errorf("%q was accepted with bytes that are refused", p)
		}
		first, _, _ := strings.Cut(p, "/")
		if strings.EqualFold(first, StagingName) {
			t.Errorf("%q was accepted and names the staging directory", p)
		}
		parents, name := split(p)
		if len(parents) >= MaxPathDepth || name == "" || len(name) > MaxNameBytes || len(p) > MaxPathBytes {
			t.Errorf("%q was accepted beyond a limit", p)
		}
	})
}
