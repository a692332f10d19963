// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

func TestWhatTheFirstBytesAreOf(t *testing.T) {
	for text, want := range map[string]spoken{
		"":                           undecided,
		"G":                          undecided,
		"GET":                        undecided,
		"GET ":                       undecided,
		"GET /a?b HTTP/1.":           undecided,
		"GET / HTTP/1.1":             undecided,
		"GET / HTTP/1.1\r":           http1Spoken,
		"GET / HTTP/1.1\r\nHost: x":  http1Spoken,
		"GET / HTTP/1.0\n":           http1Spoken,
		"M-SEARCH * HTTP/1.1\r\n":    http1Spoken,
		"PROPFIND / HTTP/1.1\r\n":    http1Spoken,
		"CONNECT a:1 HTTP/1.1\r\n":   http1Spoken,
		"GET http://a/ HTTP/1.1\r\n": http1Spoken,
		"P":                          undecided,
		"PRI * HTTP/2.0\r\n\r\nSM":   undecided,
		preface:                      http2Spoken,
		preface + "\x00\x00":         http2Spoken,
		"PRI * HTTP/2.1\r\n":         otherSpoken,
		"GET key\r\n":                otherSpoken, // Redis
		"GET / HTTP/1.2\r\n":         otherSpoken,
		"GET / HTTP/1.10\r\n":        otherSpoken,
		"GET / HTTP/2\r\n":           otherSpoken,
		"GET  HTTP/1.1\r\n":          otherSpoken,
		"get / HTTP/1.1\r\n":         otherSpoken,
		" GET / HTTP/1.1\r\n":        otherSpoken,
		"\r\nGET / HTTP/1.1\r\n":     otherSpoken,
		"EHLO mail\r\n":              otherSpoken,
		"*1\r\n$4\r\nPING\r\n":       otherSpoken,
		"\x16\x03\x01\x02\x00":       otherSpoken, // TLS
		"\x00\x00\x00\x08\x04\xd2":   otherSpoken, // PostgreSQL
		"SSH-2.0-x\r\n":              otherSpoken,
		"GET \x00":                   otherSpoken,
		strings.Repeat("A", 33):      otherSpoken,
		"GET /" + strings.Repeat("a", maxFirst-6): undecided,
		"GET /" + strings.Repeat("a", maxFirst-5): http1Spoken,
	} {
		if got := classify([]byte(text)); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

// FuzzClassify holds the answer to what came before: more bytes never make another protocol of one that was decided, and what
// net/http reads as a request of HTTP/1 is not passed as something else.
func FuzzClassify(f *testing.F) {
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", preface, "GET key\r\n", "\x16\x03\x01", "POST /a?b=%20 HTTP/1.0\r\n\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before := undecided
		for n := range len(text) + 1 {
			got := classify([]byte(text[:n]))
			if before != undecided && got != before {
				t.Fatalf("%q is %s, and %q is %s", text[:n-1], before, text[:n], got)
			}
			before = got
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err == nil && r.ProtoMajor == 1 && r.ProtoMinor <= 1 && isMethod([]byte(r.Method)) && isTarget([]byte(r.RequestURI)) && before != http1Spoken {
			t.Errorf("%q is read as %s %s, and is %s", text, r.Method, r.RequestURI, before)
		}
	})
}
