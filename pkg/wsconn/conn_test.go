// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wsconn

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// late is how long a test waits for what should come at once.
const late = 30 * time.Second

// pair returns both ends of a connection whose messages have at most 1 KiB.
func pair(t *testing.T) (client, server *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r, 1<<10, "a", "b")
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	})
	client, _, err := Dial(t.Context(), http.DefaultClient, to, nil, 1<<10, "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { _, _ = client.CloseNow(), server.CloseNow() })
	return client, server
}

// serve returns the URL of a server that answers with a handler.
func serve(t *testing.T, handler http.HandlerFunc) *url.URL {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// drain reads a connection until it ends, and returns a channel for the error.
func drain(ctx context.Context, c *Conn) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Read(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

func TestTheServersOrderDecidesTheSubprotocol(t *testing.T) {
	client, server := pair(t)
	if client.Subprotocol() != "a" || server.Subprotocol() != "a" {
		t.Errorf("the client has %q, the server %q; want a", client.Subprotocol(), server.Subprotocol())
	}
}

func TestAMessageHasALimitAtBothEnds(t *testing.T) {
	for name, from := range map[string]func(client, server *Conn) (writer, reader *Conn){
		"from the client": func(client, server *Conn) (*Conn, *Conn) { return client, server },
		"from the server": func(client, server *Conn) (*Conn, *Conn) { return server, client },
	} {
		t.Run(name, func(t *testing.T) {
			writer, reader := from(pair(t))
			for _, size := range []int{1 << 10, 1<<10 + 1} {
				if err := writer.Write(t.Context(), make([]byte, 1), make([]byte, size-1)); err != nil {
					t.Fatal(err)
				}
			}
			if p, err := reader.Read(t.Context()); err != nil || len(p) != 1<<10 {
				t.Fatalf("a message of the limit: %d bytes, %v", len(p), err)
			}
			if p, err := reader.Read(t.Context()); !errors.Is(err, websocket.ErrReadLimit) {
				t.Errorf("a message above the limit: %d bytes, %v", len(p), err)
			}
			if _, err := writer.Read(t.Context()); CloseCode(err) != websocket.CloseMessageTooBig {
				t.Errorf("the writer learns %v", err)
			}
		})
	}
}

// gorilla/websocket panics when two goroutines write, and mixes their messages.
func TestManyGoroutinesWriteAndPingAtOnce(t *testing.T) {
	client, server := pair(t)
	drain(t.Context(), client)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			p := bytes.Repeat([]byte{byte(i)}, 1000)
			for range 50 {
				if err := client.Write(t.Context(), p[:1], p[1:]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Go(func() {
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), late)
			if err := client.Ping(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
	for range 8 * 50 {
		p, err := server.Read(t.Context())
		if err != nil || len(p) != 1000 || bytes.Count(p, p[:1]) != len(p) {
			t.Fatalf("a message of %d bytes, %v", len(p), err)
		}
	}
	drain(t.Context(), server) // answers the last pings
	writers.Wait()
}

func TestAPingsDeadlineEndsWithThePing(t *testing.T) {
	client, server := pair(t)
	reads := []<-chan error{drain(t.Context(), client), drain(t.Context(), server)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for _, c := range []*Conn{client, server} {
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done()
	for i, c := range []*Conn{client, server} {
		ctx, cancel := context.WithTimeout(t.Context(), late)
		defer cancel()
		if err := c.Ping(ctx); err != nil {
			t.Errorf("end %d after the deadline of the ping before: %v", i, err)
		}
		select {
		case err := <-reads[i]:
			t.Errorf("end %d: the connection ended: %v", i, err)
		default:
		}
	}
}

func TestAPingThatNobodyAnswersFails(t *testing.T) {
	client, _ := pair(t)
	drain(t.Context(), client)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := client.Ping(t.Context()); err == nil {
		t.Error("a ping without a deadline was sent")
	}
}

func TestTheEndOfAContextEndsAReadAndAWrite(t *testing.T) {
	big := make([]byte, 8<<20) // more than the buffers of a connection whose other side does not read
	for name, do := range map[string]func(context.Context, *Conn) error{
		"read":  func(ctx context.Context, c *Conn) error { _, err := c.Read(ctx); return err },
		"write": func(ctx context.Context, c *Conn) error { return c.Write(ctx, big) },
		"a write that waits for another": func(ctx context.Context, c *Conn) error {
			go func() { _ = c.Write(context.Background(), big) }()
			for len(c.writing) == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return c.Write(ctx, big)
		},
	} {
		for end := range 2 {
			t.Run(name, func(t *testing.T) {
				client, server := pair(t)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := do(ctx, [...]*Conn{client, server}[end]); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// EndCommand relies on it: the answer to the close frame says that the signal before it has arrived.
func TestCloseReturnsWhenThePeerHasReadWhatCameBefore(t *testing.T) {
	client, server := pair(t)
	if err := client.Write(t.Context(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- client.Close(websocket.CloseNormalClosure, "") }()
	if p, err := server.Read(t.Context()); string(p) != "before" || err != nil {
		t.Fatalf("%q, %v", p, err)
	}
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v before the peer has read the close frame", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := server.Read(t.Context()); CloseCode(err) != websocket.CloseNormalClosure {
		t.Errorf("the peer learns %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A side that reads in another goroutine closes too, and Close ignores messages that cross its close frame.
func TestCloseBesideAReader(t *testing.T) {
	client, server := pair(t)
	drain(t.Context(), client)
	read := drain(t.Context(), server)
	if err := client.Write(t.Context(), []byte("crosses")); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(4001, strings.Repeat("ä", 200)); err != nil {
		t.Error(err)
	}
	if err := <-read; CloseCode(err) != 4001 {
		t.Errorf("the reader of the closing side got %v", err)
	}
}

func TestCloseReportsThatThePeerClosedForAReasonOfItsOwn(t *testing.T) {
	client, server := pair(t)
	drain(t.Context(), server)
	go func() { _ = server.Close(websocket.ClosePolicyViolation, "") }()
	if _, err := client.Read(t.Context()); CloseCode(err) != websocket.ClosePolicyViolation {
		t.Fatalf("got %v", err)
	}
	if err := client.Close(websocket.CloseNormalClosure, ""); CloseCode(err) != websocket.ClosePolicyViolation {
		t.Errorf("got %v", err)
	}
}

func TestAConnectionThatIsLostHasNoCloseCode(t *testing.T) {
	client, server := pair(t)
	_ = server.CloseNow()
	if _, err := client.Read(t.Context()); err == nil || CloseCode(err) != -1 {
		t.Errorf("got %v, code %d", err, CloseCode(err))
	}
}

// countingPool counts the buffers that are taken and not given back.
type countingPool struct{ taken, out atomic.Int32 }

func (p *countingPool) Get() any { p.taken.Add(1); p.out.Add(1); return nil }
func (p *countingPool) Put(any)  { p.out.Add(-1) }

func TestASilentConnectionHoldsNoWriteBuffer(t *testing.T) {
	before, pool := buffers, &countingPool{}
	buffers = pool
	defer func() { buffers = before }()
	client, server := pair(t)
	for _, c := range []*Conn{client, server} {
		if err := c.Write(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if pool.taken.Load() != 2 || pool.out.Load() != 0 {
		t.Errorf("of %d buffers %d are held", pool.taken.Load(), pool.out.Load())
	}
}
