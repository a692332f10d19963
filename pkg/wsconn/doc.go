// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package wsconn is the WebSocket connection of the client and of the runner: gorilla/websocket with contexts,
// several writers and a closing handshake.
//
// [Dial] sends the handshake through the caller's http.Client, so that its roots, proxy, credential and rule
// for redirects hold for WebSockets too. [Accept] is the runner's end. Compression is never negotiated, each
// message is bounded, and a context that ends closes the connection.
package wsconn
