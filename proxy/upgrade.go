// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/relay"
)

// upgrade carries a request that asks for another protocol, such as WebSocket, and then the bytes of that.
func (x *exchange) upgrade(protocols []string) error {
	out := x.outgoing()
	out.Close = true // the connection is for this request alone
	out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, protocols
	var backend net.Conn
	out = out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { backend = info.Conn },
	}))
	res, err := x.roundTrip(out)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		x.answer(res)
		return nil
	}
	chosen := res.Header.Get("Upgrade")
	if backend == nil || chosen == "" || !hasToken(protocols, chosen) {
		return errUnexpectedSwitch
	}
	early, err := drain(res.Body, backend)
	if err != nil {
		return err
	}
	return x.switchTo(chosen, res.Header, relay.End{Conn: backend, Early: early})
}

// drain takes what the backend sent behind its answer out of the buffer.
func drain(body io.Reader, conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(past); err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	var early bytes.Buffer
	if _, err := io.Copy(&early, io.LimitReader(body, MaxHeaderBytes)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	return early.Bytes(), nil
}

// switchTo answers with 101 and relays until both sides have ended.
func (x *exchange) switchTo(protocol string, header http.Header, backend relay.End) error {
	_, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return fmt.Errorf("taking the client's connection over: %w", err)
	}
	defer func() { _ = x.client.Close() }()
	x.status, x.upgraded = http.StatusSwitchingProtocols, true
	removeHopByHop(header)
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	var answer strings.Builder
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := header.Write(&answer); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	answer.WriteString("\r\n")
	_ = x.client.SetDeadline(time.Time{})
	if _, err := io.WriteString(x.client.Conn, answer.String()); err != nil {
		x.cause = causeClient
		return nil // nobody is left to tell
	}
	// What the client sent right behind its request is in the buffer and nowhere else.
	sent, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		return fmt.Errorf("taking the client's connection over: %w", err)
	}
	x.client.early = append(bytes.Clone(sent), x.client.early...)
	ctx := x.port.proxy.passing
	if x.copied {
		var done func()
		ctx, done = x.port.proxy.led.begin(ctx, x.sandbox, x.address)
		defer done()
	}
	x.port.relay(ctx, x.client, backend)
	return nil
}
