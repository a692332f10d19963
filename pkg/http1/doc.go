// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package http1 is the HTTP/1.1 client of a reverse proxy whose upstreams are hostile. It sends a
// request and reads the answer on its caller's goroutine, where net/http's Transport hands both
// to goroutines of the connection; that is what makes it cheaper. Parsing is net/http's own
// (http.ReadResponse).
//
// What it promises:
//
//   - A connection serves one host (one key) for ever, and is used again only after an exchange
//     whose end leaves no doubt: the whole request sent, the whole answer read, one way of telling
//     its length, not a byte beyond it, HTTP/1.1, and nobody asked to close.
//   - A request is sent again at most once, on a new connection, and only if it is a GET, HEAD or
//     OPTIONS without a body of which no byte of an answer has arrived.
//   - The header of an answer is bounded, those of informational answers before it included.
//   - It follows no redirect, inflates nothing, keeps no cookies and asks no proxy.
//   - An idle connection holds no buffers and no goroutine.
package http1
