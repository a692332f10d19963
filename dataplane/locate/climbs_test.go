// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestWhichTailsClimb(t *testing.T) {
	for tail, want := range map[string]bool{
		"": false, "/": false, "/a/b": false, "/a..b/...": false, "/.well-known/x": false, "/..a/b..": false, "/a.b/.c": false,
		"/@scope%2fpkg/a%20b/%C3%A4": false, "/_next/static/chunks/%5B...slug%5D.js": false, "/100%25": false, "/100%25/x": false, "/%25zz": false,
		"/a;b=1/c": false, "/%E3%80%82/x": false, "/%E2%80%A6": false, "/a%E2%80%A5b": false, "/a%2525b": false, "/%E0%A4%AF": false, "/%F0%9F%98%80": false,
		"/%B0%A1%CE%C4": false, "/a%3Fb=../c": false, "/fichier%5C..x": false, "/a%09b": false, "/a%80b": false, "/%u1234": false,

		"/..": true, "/.": true, "/a/../b": true, "/a/./b": true, "/%2e%2e/b": true, "/.%2E/b": true, "/a%2f..%2f..": true, "/..%5cb": true,
		`/a\..\b`: true, "/..;a=b/c": true, "/.;/c": true, "/%2e%2e%3b/c": true, "/..%00/x": true, "/a%00b": true,
		"/%252e%252e/b": true, "/%25252e%25252e/b": true, "/%2525252e./b": true, "/%25252525252e": true,
		// One broken escape must not keep the others from being looked at.
		"/%25zz/%252e%252e/b": true, "/%252e%252e/%25": true, "/%2525/%252e%252e": true,
		// Overlong encodings, of each length.
		"/%c0%ae%c0%ae/b": true, "/a%c1%9cb": true, "/%e0%80%ae%e0%80%ae/b": true, "/%E0%80%AF": true, "/%e0%81%9c": true, "/%f0%80%80%ae./b": true,
		"/%f8%80%80%80%ae./b": true, "/%fc%80%80%80%80%ae./b": true, "/%25c0%25ae./b": true, "/%25e0%2580%25ae./b": true,
		// Characters that are dots or slashes to who folds them.
		"/%ef%bc%8e%ef%bc%8e/b": true, "/.%ef%bc%8e/b": true, "/%e2%80%a4%e2%80%a4/b": true, "/%e2%80%a5/b": true, "/%ef%b9%92./b": true,
		"/..%ef%bc%8fb": true, "/..%ef%bc%bcb": true, "/..%ef%b9%a8b": true, "/..%ef%bc%9bx/b": true, "/%25ef%25bc%258e./b": true,
		// Bytes and characters that readers drop.
		"/.%ff./b": true, "/.%80./b": true, "/.%09./b": true, "/.%0d%0a./b": true, "/.%7f./b": true, "/.%e2%80%8b./b": true, "/.%ef%bb%bf./b": true,
		"/..%20/b": true, "/%20../b": true, "/..%c2%a0/b": true, "/.%c2%ad./b": true, "/.%e2%80%8d%ff./b": true,
		// What a second reader takes for the end of the path.
		"/..%3fx": true, "/..%23x": true, "/a/..%3f": true,
		"/%25u002e%25u002e/b": true, "/.%25U002E/b": true, "/%25u2024./b": true, "/%25uff0e%25uff0e": true,
	} {
		if got := climbs(tail); got != want {
			t.Errorf("%s climbs: %t, want %t", tail, got, want)
		}
	}
}

// FuzzClimbs: of a tail that is let through no reader can make one that leaves upstreamPath, however
// often it decodes, whatever it folds or drops, and whichever slash it takes.
func FuzzClimbs(f *testing.F) {
	for _, seed := range []string{
		"/a/%2e%2e/b", "/%c0%ae%c0%ae", "/%e0%80%ae./x", "/%f0%80%80%ae%ef%bc%8e", "/.%ff.", "/..%3f", "/%25zz/%252e%252e", "/%25u002e.", `/..\x`,
		"/%EF%BC%8E%E2%80%A4;x", "/.%0a.", "/%e0%80%af..", "/a%00/..", "/@scope%2fpkg", "/%E2%80%A5",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		if !strings.HasPrefix(tail, "/") || climbs(tail) {
			return
		}
		for decoded, round := tail, 0; round <= 4; round++ {
			for name, read := range readings {
				for second, again := range readings {
					form := strings.ReplaceAll(again(read(decoded)), `\`, "/")
					if clean := path.Clean("/logs" + form); clean != "/logs" && !strings.HasPrefix(clean, "/logs/") {
						t.Fatalf("%q, decoded %d times, read %s and %s, climbs: %q", tail, round, name, second, clean)
					}
				}
			}
			next, err := url.PathUnescape(decoded)
			if err != nil {
				next = unescape(decoded)
			}
			decoded = next
		}
	})
}

// readings are ways in which servers read a path that has been decoded some times already.
var readings = map[string]func(string) string{
	"as it is": func(s string) string { return s },
	"overlong": func(s string) string {
		// A decoder that puts the bits together and does not look at how many bytes it took.
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			length := map[bool]int{true: 0}[s[i] < 0xc0]
			for _, lead := range []struct {
				mask, is byte
				more     int
			}{{0xe0, 0xc0, 1}, {0xf0, 0xe0, 2}, {0xf8, 0xf0, 3}, {0xfc, 0xf8, 4}, {0xfe, 0xfc, 5}} {
				if s[i]&lead.mask == lead.is {
					length = lead.more
				}
			}
			if length == 0 || i+length >= len(s) {
				b.WriteByte(s[i])
				continue
			}
			r, ok := rune(s[i])&(0x3f>>length), true
			for _, c := range []byte(s[i+1 : i+1+length]) {
				ok = ok && c&0xc0 == 0x80
				r = r<<6 | rune(c&0x3f)
			}
			if !ok || r >= 0x80 {
				b.WriteByte(s[i])
				continue
			}
			b.WriteByte(byte(r))
			i += length
		}
		return b.String()
	},
	"folded":        norm.NFKC.String,
	"without bytes": func(s string) string { return strings.ToValidUTF8(s, "") },
	"without controls": func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, s)
	},
	"without parameters": func(s string) string {
		segments := strings.Split(s, "/")
		for i := range segments {
			segments[i], _, _ = strings.Cut(segments[i], ";")
		}
		return strings.Join(segments, "/")
	},
	"up to a query":    func(s string) string { s, _, _ = strings.Cut(s, "?"); return s },
	"up to a fragment": func(s string) string { s, _, _ = strings.Cut(s, "#"); return s },
	"up to NUL":        func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s },
}
