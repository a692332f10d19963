// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import "net/http"

// A front that reuses connections must see the end of each request where the data plane sees it.
// Otherwise the front sends another caller's request, with its token, where the data plane reads
// the rest of an attacker's: into the body of a request to the attacker's own pod (request
// smuggling, RFC 9112 section 11.2). Two kinds of request leave that end in doubt:
//
//   - HTTP/1.1 with Transfer-Encoding. net/http reads such a body as chunked and deletes a
//     Content-Length that came with it, so a handler cannot tell whether there was one.
//   - HTTP/1.0. net/http deletes a Transfer-Encoding there and goes on by the Content-Length.
//
// RFC 9112 section 6.1 wants the connection to end after both, and so it ends after every request
// that could be one: what follows on it is read by nobody, whatever the front takes it for. A
// client that sends chunked bodies pays with a connection per body; one that states their length,
// or speaks HTTP/2, pays nothing. ADR 15 says why the request is not refused below net/http.

// isFramingDoubtful reports whether two readers of a request may disagree about where it ends.
func isFramingDoubtful(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}

// endDoubtfulConnections ends the connection with the answer to a request whose framing is in
// doubt, whoever answers. The front must read it in the header: an answer may come before the
// body has ended, and an announcement that comes later than the front's next request is too late.
func endDoubtfulConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isFramingDoubtful(r) {
			next.ServeHTTP(w, r)
			return
		}
		last := &lastAnswer{ResponseWriter: w}
		next.ServeHTTP(last, r)
		last.announce() // net/http answers 200 for a handler that has written nothing
	})
}

// lastAnswer writes an answer that ends its connection.
type lastAnswer struct {
	http.ResponseWriter
	announced bool
}

func (w *lastAnswer) announce() {
	if w.announced {
		return
	}
	w.announced = true
	// First: net/http looks at the first value alone. A 426 has an Upgrade beside it.
	h := w.ResponseWriter.Header()
	h["Connection"] = append([]string{"close"}, h["Connection"]...)
}

// WriteHeader implements http.ResponseWriter.
func (w *lastAnswer) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.announce()
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *lastAnswer) Write(p []byte) (int, error) {
	w.announce()
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // a pass-through
}

// FlushError implements what http.ResponseController flushes with: a flush writes the header.
func (w *lastAnswer) FlushError() error {
	w.announce()
	return http.NewResponseController(w.ResponseWriter).Flush() //nolint:wrapcheck // a pass-through
}

// Unwrap lets http.ResponseController reach the connection.
func (w *lastAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
