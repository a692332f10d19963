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

func TestWhatTheFirstBytesAreOfOnAPortOfHTTP(t *testing.T) {
	for text, want := range map[string]spoken{
		"":                           undecided,
		"G":                          http1Spoken,
		"P":                          undecided,
		"PR":                         undecided,
		"PO":                         http1Spoken,
		"PRI":                        undecided,
		"PRI ":                       http2Spoken,
		"PROPFIND / HTTP/1.1\r\n":    http1Spoken,
		"PROXY / HTTP/1.1\r\n":       http1Spoken,
		"PROXY TCP4 HTTP/1.1\r\n":    http1Spoken,
		"PROXY TCP4 ":                undecided,
		"PROXY TCP4 192.0.2.1 192":   otherSpoken,
		"PROXY TCP6 ::1 ::1 1 2\r\n": otherSpoken,
		"PROXY UNKNOWN HTTP/1.1\r\n": http1Spoken,
		"PROXY UNKNOWN\r":            undecided,
		"PROXY UNKNOWN\r\n":          otherSpoken,
		"\r\n":                       undecided,
		"\r\nGET / HTTP/1.1\r\n":     http1Spoken, // which net/http refuses
		proxyV2:                      otherSpoken,
		"\nGET / HTTP/1.1\r\n":       http1Spoken,
		" GET / HTTP/1.1\r\n":        http1Spoken,
		"get / HTTP/1.1\r\n":         http1Spoken,
		"GET key\r\n":                http1Spoken,
		"\x16":                       otherSpoken, // TLS
		"\x16\x03\x01\x02\x00":       otherSpoken,
		"\x00\x00\x00\x08\x04\xd2":   otherSpoken,
		"\x80\x01\x00\x01":           otherSpoken, // Thrift
	} {
		if got := classifyOnHTTP([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzClassifyOnHTTP holds that the answer stays, that it is there once mostOnHTTP bytes are, and that no request of HTTP/1
// passes as something else, not even one that has only the form of one.
func FuzzClassifyOnHTTP(f *testing.F) {
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", preface, proxyV2, proxyUnknown, "PROXY TCP4 HTTP/1.1\r\n\r\n", "\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\x16\x03"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before := undecided
		for n := range len(text) + 1 {
			got := classifyOnHTTP([]byte(text[:n]))
			if before != undecided && got != before || n >= mostOnHTTP && got == undecided {
				t.Fatalf("%q is %s, and %q is %s", text[:max(0, n-1)], before, text[:n], got)
			}
			before = got
		}
		// Servers pass over empty lines in front of a request, and white space.
		line, _, _ := strings.Cut(strings.TrimLeft(text, "\r\n\t "), "\n")
		if version := strings.LastIndex(line, " HTTP/"); version > 0 && strings.Count(line, " ") == 2 && !isBinary(line[0]) && before == otherSpoken && !strings.HasPrefix(text, proxyV2) {
			t.Errorf("%q passes as something else", text)
		}
	})
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
