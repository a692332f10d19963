// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// startFrontProxy starts a data plane behind kcp's own front proxy, of which there is one at a time.
func startFrontProxy(t *testing.T) (*local.FrontProxy, *local.Replica) {
	t.Helper()
	ca, err := world.FrontProxyCA()
	if err != nil {
		t.Fatal(err)
	}
	replica, err := world.StartReplicaAs(t.Context(), "behind-front-proxy", "--path-prefix", "/services/providers/infrastructure",
		"--requestheader-client-ca-file", ca, "--requestheader-allowed-names", local.FrontProxyName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	front, err := world.StartFrontProxy(t.Context(), replica.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Stop() })
	return front, replica
}

// TestStreamsThroughTheFrontProxyLast: a log, events, a WebSocket and a command that last for longer than the
// minute after which proxies like to end what they take for a request (003-33).
func TestStreamsThroughTheFrontProxyLast(t *testing.T) {
	long(t, "it waits until a request's minute is over")
	breaks(t) // the one front proxy is TestFrontProxyIdentity's otherwise
	front, _ := startFrontProxy(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	c.url = front.URL + front.Path
	box.deployTicker(c)
	s := openStreams(t, box, c)
	s.use(t, "at once")
	const past = 75 * time.Second
	out, err := box.exec(t.Context(), c, c.url, "sleep 75; echo woken") // while it sleeps, nothing else passes
	if err != nil || out != "woken\n" {
		t.Errorf("a command of %s: %q, %v", past, out, err)
	}
	s.use(t, "after "+past.String())
}

// deployTicker deploys the sample project with a stream of events that says something when it is told to.
func (i *instance) deployTicker(c *caller) {
	c.t.Helper()
	files := project(c.t)
	files["message.txt"] = "ticking\n"
	files["server.mjs"] = strings.Replace(files["server.mjs"], "const routes = {", `const open = new Set();
const routes = {
  '/ticks': (req, res) => {
    res.setHeader('content-type', 'text/event-stream');
    res.write('data: open\n\n');
    open.add(res);
  },
  '/tick': (req, res) => {
    for (const stream of open) stream.write('data: ' + req.url + '\n\n');
    res.end('ticked\n');
  },`, 1)
	c.want(http.StatusOK, http.MethodPost, i.base()+"/sync", syncBody(c.t, files))
	i.waitAnswer(c, "ticking")
}

// streams are a log, events and a WebSocket of one sandbox.
type streams struct {
	box    *instance
	c      *caller
	lines  <-chan string
	events *bufio.Reader
	socket *websocket.Conn
}

func openStreams(t *testing.T, box *instance, c *caller) *streams {
	t.Helper()
	s := &streams{box: box, c: c, lines: box.follow(t.Context(), c), socket: openSocket(t, c.url, box, c.token)}
	res := c.open(t.Context(), http.MethodGet, box.base()+"/proxy/ticks", nil)
	t.Cleanup(func() { res.Body.Close() })
	s.events = bufio.NewReader(res.Body)
	s.wantEvent(t, "open")
	return s
}

// use has each of the streams say something, and waits for that.
func (s *streams) use(t *testing.T, when string) {
	t.Helper()
	mark := randomHex(6)
	s.c.want(http.StatusOK, http.MethodGet, s.box.base()+"/proxy/log?text="+mark, nil)
	waitLine(t, s.lines, mark)
	s.c.want(http.StatusOK, http.MethodGet, s.box.base()+"/proxy/tick?"+mark, nil)
	s.wantEvent(t, mark)
	if err := s.socket.WriteMessage(websocket.TextMessage, []byte(mark)); err != nil {
		t.Fatalf("the WebSocket, %s: %v", when, err)
	}
	_ = s.socket.SetReadDeadline(time.Now().Add(patience()))
	for {
		_, got, err := s.socket.ReadMessage()
		if err != nil {
			t.Fatalf("the WebSocket, %s: %v", when, err)
		}
		if strings.Contains(string(got), mark) {
			return
		}
	}
}

// wantEvent reads events until one has a text.
func (s *streams) wantEvent(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	found := make(chan error, 1)
	go func() {
		for {
			line, err := s.events.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "data: ") && strings.Contains(line, text) {
				found <- err
				return
			}
		}
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Fatalf("no event with %q: %v", text, err)
		}
	case <-ctx.Done():
		t.Fatalf("no event with %q in %s", text, patience())
	}
}
