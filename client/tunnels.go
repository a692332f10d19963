// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// tunnels are the connection of a port forwarder, made of one tunnel for each port.
//
// A pod that refuses a connection leaves what was sent on it unread, and SPDY's reader at the kubelet then
// waits for ever: other connections in the same tunnel stand still. That is why client-go and kubectl end
// all connections with the first that is refused. Here a tunnel in which one was refused gets no further
// connections: the next one to the port has a new tunnel. The forwarder sees error streams that are empty.
type tunnels struct {
	dial  func() (httpstream.Connection, error)
	notes io.Writer

	mu sync.Mutex
	// first is the tunnel that was made before a port was asked for.
	first  *oneTunnel
	byPort map[string]*oneTunnel
	// byRequest has the tunnels of connections whose second stream is still to come.
	byRequest map[string]*oneTunnel
	alive     map[*oneTunnel]bool
	told      map[string]string // why a port was refused, by port
	failure   error             // why there is no new tunnel
	lost      chan bool
	ended     bool
}

// oneTunnel is a tunnel. open counts its connections; one that is retired gets no more of them.
type oneTunnel struct {
	httpstream.Connection
	open    int
	retired bool
}

func newTunnels(first httpstream.Connection, dial func() (httpstream.Connection, error), notes io.Writer) *tunnels {
	t := &tunnels{
		dial: dial, notes: notes, byPort: map[string]*oneTunnel{}, byRequest: map[string]*oneTunnel{}, alive: map[*oneTunnel]bool{},
		told: map[string]string{}, lost: make(chan bool),
	}
	t.first = t.add(first)
	return t
}

// add takes over a tunnel. The caller holds the mutex, or nobody has the tunnels yet.
func (t *tunnels) add(c httpstream.Connection) *oneTunnel {
	one := &oneTunnel{Connection: c}
	t.alive[one] = true
	go func() {
		<-c.CloseChan()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.alive, one)
		if !one.retired {
			t.end()
		}
	}()
	return one
}

// end tells the forwarder that the way to the pod is lost.
func (t *tunnels) end() {
	if !t.ended {
		t.ended = true
		close(t.lost)
	}
}

// CreateStream implements httpstream.Connection. Each connection to a port has an error stream, which the
// forwarder makes first, and a data stream.
func (t *tunnels) CreateStream(headers http.Header) (httpstream.Stream, error) {
	port, request := headers.Get(corev1.PortHeader), headers.Get(corev1.PortForwardRequestIDHeader)
	isError := headers.Get(corev1.StreamType) == corev1.StreamTypeError
	one, err := t.tunnelOf(port, request, isError)
	if err != nil {
		t.tell(port, err.Error())
		return nil, err
	}
	stream, err := one.CreateStream(headers)
	if err != nil {
		t.left(one, request, isError)
		return nil, err
	}
	return &tunnelStream{Stream: stream, port: port, isError: isError, of: one, request: request, tunnels: t}, nil
}

func (t *tunnels) tunnelOf(port, request string, isError bool) (*oneTunnel, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isError {
		one := t.byRequest[request]
		delete(t.byRequest, request)
		if one == nil {
			return nil, fmt.Errorf("connection %s to port %s has no error stream", request, port)
		}
		return one, nil
	}
	one := t.byPort[port]
	if one == nil {
		one, t.first = t.first, nil
	}
	if one == nil {
		c, err := t.dial()
		if err != nil {
			if !Temporary(err) {
				t.failure = err
				t.end()
			}
			return nil, err
		}
		one = t.add(c)
	}
	t.byPort[port], t.byRequest[request] = one, one
	one.open++
	return one, nil
}

// left notes the end of a connection, of which the error stream counts.
func (t *tunnels) left(one *oneTunnel, request string, isError bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isError {
		return
	}
	delete(t.byRequest, request)
	if one.open--; one.retired && one.open == 0 {
		_ = one.Close()
	}
}

// answered notes whether a port refused a connection, and why.
func (t *tunnels) answered(s *tunnelStream, refusal string) {
	if refusal != "" {
		t.mu.Lock()
		s.of.retired = true
		if t.byPort[s.port] == s.of {
			delete(t.byPort, s.port)
		}
		t.mu.Unlock()
	}
	t.tell(s.port, refusal)
}

// tell tells why a connection to a port failed; empty if it did not.
func (t *tunnels) tell(port, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == "" {
		delete(t.told, port)
		return
	}
	reason := "a connection to port " + port + " failed: " + termsafe.Line(text)
	if strings.Contains(text, "connection refused") {
		reason = "nothing listens on port " + port + " in the sandbox, which refused the connection"
	}
	if t.told[port] != reason {
		t.told[port] = reason
		fmt.Fprintln(t.notes, reason)
	}
}

// RemoveStreams implements httpstream.Connection.
func (t *tunnels) RemoveStreams(streams ...httpstream.Stream) {
	for _, stream := range streams {
		if s, ok := stream.(*tunnelStream); ok {
			s.of.RemoveStreams(s.Stream)
			t.left(s.of, s.request, s.isError)
		}
	}
}

// Close implements httpstream.Connection.
func (t *tunnels) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	for one := range t.alive {
		_ = one.Close()
	}
	return nil
}

// CloseChan implements httpstream.Connection.
func (t *tunnels) CloseChan() <-chan bool { return t.lost }

// SetIdleTimeout implements httpstream.Connection: idle tunnels stay.
func (t *tunnels) SetIdleTimeout(time.Duration) {}

// cause is why there is no way to the pod any more, if that is known.
func (t *tunnels) cause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// tunnelStream is a stream of a connection to a port.
type tunnelStream struct {
	httpstream.Stream
	port    string
	request string
	isError bool
	of      *oneTunnel
	tunnels *tunnels
}

// maxRefusal bounds what is read of a reason.
const maxRefusal = 4 << 10

// Read implements io.Reader. What an error stream has is for a person, and not for the forwarder.
func (s *tunnelStream) Read(p []byte) (int, error) {
	if !s.isError {
		return s.Stream.Read(p)
	}
	text, _ := io.ReadAll(io.LimitReader(s.Stream, maxRefusal)) //nolint:forbidigo // maxRefusal
	s.tunnels.answered(s, string(text))                         // a tunnel that is lost ends all, and the forwarder says so
	return 0, io.EOF
}
