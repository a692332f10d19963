// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

const podForward = "SPDY/3.1+portforward.k8s.io"

func TestExecSpeaksThePodsProtocolWhereThereIsNoRunner(t *testing.T) {
	w := newWorld(t)
	say := func(r *http.Request, conn *wsconn.Conn, channel byte, text string) {
		_ = conn.Write(r.Context(), append([]byte{channel}, text...))
	}
	for name, c := range map[string]struct {
		args, wantQuery string
		input           string
		serve           func(*http.Request, *wsconn.Conn)
		code            int
		stdout, stderr  string
	}{
		"output behind the exit code is not lost": {
			args: "exec web -- sh -c x", wantQuery: "command=sh&command=-c&command=x&stderr=true&stdout=true",
			serve: func(r *http.Request, conn *wsconn.Conn) {
				say(r, conn, 1, "out")
				say(r, conn, 3, `{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`)
				say(r, conn, 2, "err")
				say(r, conn, 1, "late")
				_ = conn.Close(websocket.CloseNormalClosure, "")
			},
			code: 7, stdout: "outlate", stderr: "err",
		},
		"input and its end arrive": {
			args: "exec web -i -c side -- cat", wantQuery: "command=cat&container=side&stderr=true&stdin=true&stdout=true", input: "hello\n",
			serve: func(r *http.Request, conn *wsconn.Conn) {
				for {
					p, err := conn.Read(r.Context())
					if err != nil || p[0] == 255 {
						say(r, conn, 1, string(p))
						break
					}
					say(r, conn, 1, string(p[1:]))
				}
				say(r, conn, 3, `{"status":"Success"}`)
				_ = conn.Close(websocket.CloseNormalClosure, "")
			},
			stdout: "hello\n\xff\x00",
		},
		"a connection that is lost is an error and not a success": {
			args: "exec web -- sh", wantQuery: "command=sh&stderr=true&stdout=true",
			serve: func(r *http.Request, conn *wsconn.Conn) { say(r, conn, 1, "out") },
			code:  cli.ExitOurs, stdout: "out", stderr: "sandbar: running the command",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var query string
			w.Plane = clitest.PodVerb(t, clitest.PodExec, func(r *http.Request, conn *wsconn.Conn) {
				query = r.URL.RawQuery
				c.serve(r, conn)
			})
			code, stdout, stderr := w.RunWith(t, strings.NewReader(c.input), strings.Fields(c.args)...)
			if code != c.code || stdout != c.stdout || !strings.HasPrefix(stderr, c.stderr) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if query != c.wantQuery {
				t.Errorf("asked with %s, want %s", query, c.wantQuery)
			}
		})
	}
	for name, c := range map[string]struct {
		program, first string
		says           bool
	}{
		"a script with Windows line ends is named": {"/tmp/run.sh", "#!/bin/sh\r\necho hello\r\n", true},
		"a program that is not there is not":       {"/tmp/run.sh", "", false},
		"nor one whose line ends are right":        {"/tmp/run.sh", "#!/bin/sh\nnosuch\n", false},
		"nor one that is looked for in PATH":       {"nosuch", "#!/bin/sh\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			w.Plane = clitest.PodVerb(t, clitest.PodExec, func(r *http.Request, conn *wsconn.Conn) {
				// As dataplane/podexec says that a program is not there.
				end := `{"status":"Failure","reason":"InternalError","code":500,"message":"exec: \"` + c.program + `\": no such file or directory"}`
				if r.URL.Query().Get("command") == "head" && c.first != "" {
					say(r, conn, 1, c.first)
					end = `{"status":"Success"}`
				}
				say(r, conn, 3, end)
				_ = conn.Close(websocket.CloseNormalClosure, "")
			})
			code, stdout, stderr := w.Run(t, "exec", "web", "--", c.program)
			if code != 127 || stdout != "" || strings.Contains(stderr, c.program+" begins with #! and ends its first line with a carriage return") != c.says {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	t.Run("a directory of a workspace that is not there is refused", func(t *testing.T) {
		w.Plane = clitest.PodVerb(t, clitest.PodExec, func(*http.Request, *wsconn.Conn) { t.Error("the command was run") })
		if code, _, _ := w.Run(t, "exec", "web", "--dir", "x", "--", "ls"); code != cli.ExitOurs {
			t.Errorf("exit code %d", code)
		}
	})
}

// echoPorts is a pod whose every port answers with its number and what it is sent, unless it refuses.
func echoPorts(conn *wsconn.Conn, refuses func(port string) bool) {
	streams := make(chan httpstream.Stream)
	server, err := spdy.NewServerConnection(portforward.NewTunnelingConnection("pod", conn.Release()), func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() { <-replied; streams <- s }()
		return nil
	})
	if err != nil {
		return
	}
	defer server.Close()
	for {
		select {
		case <-server.CloseChan():
			return
		case s := <-streams:
			refused := refuses(s.Headers().Get("port"))
			if s.Headers().Get("streamType") == "error" {
				if refused {
					_, _ = io.WriteString(s, "failed to connect: dial tcp4 127.0.0.1:9: connect: connection refused\x1b[2J")
				}
				_ = s.Close()
				continue
			}
			if refused {
				_ = s.Close()
				continue
			}
			go func() {
				line, _ := bufio.NewReader(s).ReadString('\n')
				_, _ = io.WriteString(s, s.Headers().Get("port")+" "+line)
				_ = s.Close()
			}()
		}
	}
}

func TestPortForwardCarriesWhateverIsSpoken(t *testing.T) {
	w := newWorld(t)
	w.Verbs = []string{"port-forward"}
	gone := make(chan struct{})
	w.Plane = clitest.PodVerb(t, podForward, func(_ *http.Request, conn *wsconn.Conn) {
		go func() { <-gone; _ = conn.CloseNow() }()
		echoPorts(conn, func(string) bool { return false })
	})
	out, errs, ended := w.Begin(t.Context(), strings.NewReader(""), "port-forward", "web", "0:6379", "0:80")
	clitest.Await(t, out, "to port 80\n")
	for line := range strings.Lines(out.String()) {
		address, port, _ := strings.Cut(strings.TrimSpace(line), " to port ")
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, "PING\n")
		if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || got != port+" PING\n" {
			t.Errorf("port %s says %q (%v); %s", port, got, err, errs)
		}
		conn.Close()
	}
	close(gone)
	if code := <-ended; code != cli.ExitFailure || !strings.Contains(errs.String(), "lost connection") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// Programs take localhost for ::1 or for 127.0.0.1: both lead to the sandbox, and to nothing else.
func TestAForwardedPortIsOnBothLoopbackAddresses(t *testing.T) {
	if addresses := client.LoopbackAddresses(t.Context()); len(addresses) < 2 {
		t.Skip("this machine has no ::1")
	}
	t.Run("ports", func(t *testing.T) {
		w := newWorld(t)
		w.Verbs = []string{"port-forward"}
		w.Plane = clitest.PodVerb(t, podForward, func(_ *http.Request, conn *wsconn.Conn) {
			echoPorts(conn, func(string) bool { return false })
		})
		ctx, interrupt := context.WithCancel(t.Context())
		out, errs, ended := w.Begin(ctx, strings.NewReader(""), "port-forward", "web", "0:80")
		clitest.Await(t, out, "to port 80\n")
		local, _, _ := strings.Cut(out.String(), " to port ")
		_, number, _ := net.SplitHostPort(local)
		for _, address := range []string{"127.0.0.1", "::1"} {
			conn, err := net.Dial("tcp", net.JoinHostPort(address, number))
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(conn, "PING\n")
			if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || got != "80 PING\n" {
				t.Errorf("at %s it says %q (%v); %s", address, got, err, errs)
			}
			conn.Close()
		}
		interrupt()
		<-ended
	})
	t.Run("what is served over HTTP", func(t *testing.T) {
		w := newWorld(t)
		w.Serve(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "served") })
		ctx, interrupt := context.WithCancel(t.Context())
		out, errs, ended := w.Begin(ctx, strings.NewReader(""), "port-forward", "web")
		clitest.Await(t, out, "\n")
		number := strings.TrimSpace(out.String()[strings.LastIndexByte(out.String(), ':')+1:])
		for _, address := range []string{"127.0.0.1", "::1"} {
			res, err := http.Get("http://" + net.JoinHostPort(address, number) + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if string(body) != "served" {
				t.Errorf("at %s is %q; %s", address, body, errs)
			}
		}
		taken, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		_, busy, _ := net.SplitHostPort(taken.Addr().String())
		if code, _, stderr := w.Run(t, "port-forward", "web", "--port", busy); code != cli.ExitFailure || !strings.Contains(stderr, "address already in use: choose another --port") {
			t.Errorf("a port that another program has at ::1: exit code %d, %q", code, stderr)
		}
		interrupt()
		<-ended
	})
}

// As issue 29 found, the first connection that was refused ended the command with a line of klog.
func TestPortForwardGoesOnAfterARefusedConnection(t *testing.T) {
	w := newWorld(t)
	w.Verbs = []string{"port-forward"}
	var listens atomic.Bool
	w.Plane = clitest.PodVerb(t, podForward, func(_ *http.Request, conn *wsconn.Conn) {
		// As a kubelet does, it leaves unread what was sent to a port that refused it, and its tunnel stands still.
		echoPorts(conn, func(port string) bool { return port == "9" && !listens.Load() })
	})
	ctx, interrupt := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "port-forward", "web", "0:9", "0:80")
	clitest.Await(t, out, "to port 80\n")
	address := map[string]string{}
	for line := range strings.Lines(out.String()) {
		local, port, _ := strings.Cut(strings.TrimSpace(line), " to port ")
		address[port] = local
	}
	ask := func(port string) string {
		conn, err := net.Dial("tcp", address[port])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, "PING\n")
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	for range 3 {
		if got := ask("9"); got != "" {
			t.Errorf("the refused port says %q", got)
		}
	}
	if got := ask("80"); got != "80 PING\n" {
		t.Errorf("port 80 says %q after a refused connection to another port", got)
	}
	clitest.Await(t, errs, "nothing listens on port 9 in the sandbox")
	listens.Store(true)
	for range 6 { // SPDY reads each stream in one of five queues
		if got := ask("9"); got != "9 PING\n" {
			t.Errorf("port 9 says %q once something listens there", got)
		}
	}
	interrupt()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if said := errs.String(); strings.Count(said, "\n") != 1 || strings.Contains(said, "\x1b") {
		t.Errorf("stderr is %q", said)
	}
}

// A new tunnel needs the caller's right again.
func TestPortForwardEndsWhenTheRightIsGone(t *testing.T) {
	w := newWorld(t)
	w.Verbs = []string{"port-forward"}
	w.Plane = clitest.PodVerb(t, podForward, func(_ *http.Request, conn *wsconn.Conn) {
		echoPorts(conn, func(string) bool { return true })
	})
	out, errs, ended := w.Begin(t.Context(), strings.NewReader(""), "port-forward", "web", "0:9")
	clitest.Await(t, out, "to port 9\n")
	ask := func() {
		local, _, _ := strings.Cut(out.String(), " to port ")
		conn, err := net.Dial("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.ReadAll(conn)
	}
	ask()
	clitest.Await(t, errs, "nothing listens on port 9")
	w.Serve(clitest.Refusing(http.StatusForbidden, "Forbidden", "you may not forward ports"))
	ask()
	if code := <-ended; code != cli.ExitFailure || !strings.Contains(errs.String(), "sandbar: ") || !strings.Contains(errs.String(), "you may not forward ports") || strings.Contains(errs.String(), "lost connection") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestPortForwardSaysWhichPortIsWrittenWrongly(t *testing.T) {
	w := newWorld(t)
	w.Verbs = []string{"port-forward"}
	w.Plane = func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was called", r.URL) }
	for _, port := range []string{"http", "1:2:3", "99999"} {
		if code, _, stderr := w.Run(t, "port-forward", "web", port); code != cli.ExitUsage || !strings.Contains(stderr, port) {
			t.Errorf("%s: exit code %d, %q", port, code, stderr)
		}
	}
}

func TestPortForwardNeedsTheVerb(t *testing.T) {
	w := newWorld(t)
	if code, _, stderr := w.Run(t, "port-forward", "web", "80"); code != cli.ExitUsage || !strings.Contains(stderr, "no verb port-forward") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, _, _ := w.Run(t, "port-forward"); code != cli.ExitUsage {
		t.Errorf("without a name: exit code %d", code)
	}
}
