// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// What a caller asks an app for is the app's to read: the path behind the verb and the query go to the pod
// byte for byte, after they were judged once, here. Browsers send targets that net/url does not take for a
// valid encoding ("/a%2Fb|c", "?q=100%") and would write another way, which an app reads as another path.

// maxTargetBytes bounds the path and the query of a request together. Browsers and servers stop at 8 KiB
// to 32 KiB; this leaves room in a header of 32 KiB for a token.
const maxTargetBytes = 24 << 10

// rawPath returns the path of a request as it came. HTTP/2 carries a space, which no request line can: it is encoded.
func rawPath(in *http.Request) string {
	path, _, _ := strings.Cut(in.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return strings.ReplaceAll(path, " ", "%20")
	}
	// The absolute form (GET http://host/path), which a caller sends to what it takes for a forward proxy.
	return in.URL.EscapedPath()
}

// checkTarget refuses a target that cannot be sent in a request line, or is too long. net/http lets some of
// these bytes pass over HTTP/2.
func checkTarget(path, query string) *refusal.Error {
	if len(path)+len(query) > maxTargetBytes {
		return refusal.TargetTooLong(maxTargetBytes)
	}
	for _, part := range [...]string{path, query} {
		for i := range len(part) {
			if c := part[i]; c <= ' ' || c == 0x7f {
				return refusal.Malformed("the path has a control character, or the query one or a space: encode it")
			}
		}
	}
	return nil
}

// checkQuery refuses a query that two parsers could read differently. It is for the verbs whose parameters
// are Sandbar's: net/url drops a parameter with a broken escape, and the verb would do something else.
func checkQuery(query string) *refusal.Error {
	for i := range len(query) {
		if query[i] == '%' && (i+2 >= len(query) || !isHex(query[i+1]) || !isHex(query[i+2])) {
			return refusal.Malformed("the query has a percent sign that no two hexadecimal digits follow: write a percent sign as %25")
		}
	}
	return nil
}

// SetTail takes the whole path for the tail: it is the app's own.
func (r *Route) SetTail(in *http.Request) *refusal.Error {
	tail := rawPath(in)
	if refused := checkTarget(tail, in.URL.RawQuery); refused != nil {
		return refused
	}
	if tail == "" || tail[0] != '/' || climbs(tail) {
		return refusal.Malformed("the path must begin with a slash and not contain . or .. segments, encoded or not")
	}
	r.Tail = tail
	return nil
}

// validlyEncoded returns a path that came raw in a valid encoding. A path in front of a verb has one segment
// that anybody may choose, in /services/{any}, and all of it gets into headers and cookies.
func validlyEncoded(raw string) string {
	if strings.IndexFunc(raw, isUnsafe) < 0 {
		return raw
	}
	var b strings.Builder
	for i := range len(raw) {
		if isUnsafe(rune(raw[i])) {
			fmt.Fprintf(&b, "%%%02X", raw[i])
		} else {
			b.WriteByte(raw[i])
		}
	}
	return b.String()
}

// isUnsafe reports whether a path has to encode a character (RFC 3986 section 3.3).
func isUnsafe(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"#<>\\^`{|}", c) }
