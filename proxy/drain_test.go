// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// A document that drains, and one that does not any more, lose no request of clients that keep their connections.
func TestDrainingLosesNoRequest(t *testing.T) {
	t.Parallel()
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
		load := w.load(http2, 8)
		for range 4 {
			for _, draining := range []bool{true, false} {
				w.config.Draining = draining
				w.apply()
				load.more(t, 10)
			}
		}
		load.end(t)
	})
}

// The whole end of a process: it is told to end, goes on for a while, and its clients lose nothing.
func TestTheEndOfAProxyLosesNoRequest(t *testing.T) {
	t.Parallel()
	bothProtocols(t, func(t *testing.T, http2 bool) {
		t.Parallel()
		const while = 4 * time.Second
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)), func(o *Options) { o.Drain, o.Settle = while, while })
		load := w.load(http2, 8)
		load.more(t, 50)
		w.stop()
		eventually(t, "it drains", w.proxy.state.draining.Load)
		if reason := w.proxy.notReady(); reason != "" { // it may be all that its Service has
			t.Errorf("while it drains it is not ready: %s", reason)
		}
		load.more(t, 100) // new connections are accepted, and each ends with an answer
		load.end(t)
	})
}

func TestAnAnswerWhileDrainingAsksForTheEndOfItsConnection(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), closedAddress(t))
	conn := w.dial()
	in := bufio.NewReader(conn)
	ask := func(header string) *http.Response {
		t.Helper()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res
	}
	if res := ask(""); res.Close {
		t.Error("an answer asks for the end before the proxy drains")
	}
	w.config.Draining = true
	w.apply()
	// The idle connection stays: a request may be on its way.
	if res := ask(""); !res.Close || res.StatusCode != http.StatusOK {
		t.Errorf("the answer is %d, and asks for the end: %t", res.StatusCode, res.Close)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the answer comes %v", err)
	}
	conn, in = w.dial(), nil
	in = bufio.NewReader(conn)
	if res := ask("Baggage: " + ownBaggage + "\r\n"); !res.Close || res.StatusCode != http.StatusBadGateway {
		t.Errorf("the refusal is %d, and asks for the end: %t", res.StatusCode, res.Close)
	}
}

// A client of gRPC with a stream that lasts goes elsewhere with the next one, and the stream goes on.
func TestAStreamGoesOnWhileItsConnectionGoesAway(t *testing.T) {
	connected := make(chan string, 8)
	w := newWorld(t, intercept.HTTP, newGRPC(t, baselineAnswered), "")
	front := newTCPRelay(t, w.address, connected)
	conn := w.grpcAt(front)
	lasting := stream(t.Context(), t, conn)
	sayTo(t, lasting, "one")
	w.config.Draining = true
	w.apply()
	eventually(t, "a new stream has a connection of its own", func() bool {
		sayTo(t, stream(t.Context(), t, conn), "two")
		return len(connected) > 1
	})
	if got := sayTo(t, lasting, "three"); got != "baseline three" {
		t.Errorf("the stream answered %q", got)
	}
}

func TestTheEndWaitsForWhatIsUnderWay(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		_, _ = io.WriteString(w, "late")
	})), "", func(o *Options) { o.Drain = time.Minute })
	client := w.client(false)
	answered := make(chan string, 1)
	req := w.request("GET", "/", nil)
	go func() {
		res, err := client.Do(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answered <- string(body)
	}()
	<-begun
	w.stop()
	eventually(t, "the proxy is ending", w.proxy.state.draining.Load)
	select {
	case err := <-w.ended:
		t.Fatalf("the proxy ended with %v before its request", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if got := <-answered; got != "late" {
		t.Errorf("answered %q", got)
	}
	// The last connection has ended with its answer, and with it the proxy, long before the minute has.
	select {
	case err := <-w.ended:
		w.ended <- err
	case <-time.After(15 * time.Second):
		t.Error("the proxy goes on")
	}
}

// What is not HTTP has no answer that could ask it to go: it ends with the drain.
func TestConnectionsThatAreNotHTTPEndWithTheDrain(t *testing.T) {
	w := newWorld(t, intercept.Detect, newTCP(t, greeter), "", func(o *Options) { o.Drain = 100 * time.Millisecond })
	conn := w.dial()
	in := bufio.NewReader(conn)
	if line, _ := in.ReadString('\n'); !strings.HasPrefix(line, "220") {
		t.Fatalf("the server said %q", line)
	}
	w.stop()
	if _, err := io.ReadAll(in); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("ended with %v", err)
	}
	err := <-w.ended
	w.ended <- err
	if reason := w.proxy.notReady(); !strings.HasPrefix(reason, "ending") {
		t.Errorf("once it accepts nothing any more, it says %q", reason)
	}
}
