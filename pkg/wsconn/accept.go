// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wsconn

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gorilla/websocket"
)

// Accept answers a handshake, and returns a connection whose messages from the peer have at most maxMessage
// bytes. Of the subprotocols it takes the first that the client offers; a client that offers none of them gets
// none. On an error it has answered.
//
// Accept does not check the Origin header. A server whose callers authenticate with something that a browser
// sends for every page, such as a cookie, must check it.
func Accept(w http.ResponseWriter, r *http.Request, maxMessage int64, subprotocols ...string) (*Conn, error) {
	upgrader := websocket.Upgrader{
		WriteBufferSize: writeBuffer, WriteBufferPool: buffers,
		Subprotocols: preferred(websocket.Subprotocols(r), subprotocols),
		CheckOrigin:  func(*http.Request) bool { return true },
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("accepting a WebSocket: %w", err)
	}
	return newConn(ws, maxMessage), nil
}

// preferred returns the first of the server's subprotocols that the client offers: gorilla/websocket would take
// the client's first.
func preferred(offered, ours []string) []string {
	for i, protocol := range ours {
		if slices.Contains(offered, protocol) {
			return ours[i : i+1]
		}
	}
	return nil
}
