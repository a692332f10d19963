// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
)

// socketGoodbye bounds how long a refused WebSocket may take to say goodbye.
const socketGoodbye = time.Second

// refuseSocket refuses the WebSocket of a preview's page for which waiting would not help, and returns false
// if the request is none. Browsers hide the status of a refused handshake from scripts, so that the page of
// a development server would try again for ever: Vite's loads itself again as soon as a handshake succeeds,
// and then it is led to where the session is renewed, or shows why there is no preview any more. So the
// handshake succeeds, and the connection is closed at once with code 1008 (policy violation) and the reason.
//
// It is for the preview's own pages only: the answer must not tell another page whether this browser has a
// session here. No placement is looked up, no pod is asked, and nothing that is sent is read.
func (x *exchange) refuseSocket(e *refusal.Error) bool {
	r := x.request
	if !staysRefused(e) || upstream.CheckUpgrade(r) != nil || !preview.OriginAllowed(r.Method, r.Header, true, "https://"+r.Host) {
		return false
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: socketGoodbye,
		CheckOrigin:      func(*http.Request) bool { return true },                // OriginAllowed has
		Error:            func(http.ResponseWriter, *http.Request, int, error) {}, // the refusal itself is the answer
	}
	if asked := websocket.Subprotocols(r); len(asked) > 0 {
		upgrader.Subprotocols = asked[:1] // a browser takes no answer without one of those that it asked for
	}
	conn, err := upgrader.Upgrade(x, r, nil)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	x.Status.Store(int64(e.Code)) // the meaning of the answer, for the records
	end := time.Now().Add(socketGoodbye)
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "the preview has ended: load the page again"), end)
	conn.SetReadLimit(maxGoodbye)
	_ = conn.SetReadDeadline(end)
	for err == nil { // until the browser closes, too: closed before, its page may not see the reason
		_, _, err = conn.NextReader()
	}
	return true
}

// staysRefused reports whether a page gets no other answer before somebody does something: its session is
// over, its user's right withdrawn, the instance gone or suspended by its tenant. An app that does not
// listen, a limit or a server that starts is worth another try.
func staysRefused(e *refusal.Error) bool {
	switch e.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return e.Cause == refusal.CauseSuspended || e.Cause == refusal.CauseExpired
}

// maxGoodbye bounds a message that is read and dropped while a refused WebSocket closes.
const maxGoodbye = 4 << 10
