// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message(channel byte, data string) []byte {
	return messageOf(opBinary, append([]byte{channel}, data...)...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// exited is the status of a command that exited with a code.
func exited(code int) []byte {
	if code == 0 {
		return message(3, `{"metadata":{},"status":"Success"}`)
	}
	return message(3, fmt.Sprintf(`{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"%d"}]}}`, code))
}

// notStarted is the status of a command that the container runtime could not start.
func notStarted(program string) []byte {
	return message(3, `{"metadata":{},"status":"Failure","reason":"InternalError","code":500,"message":"OCI runtime exec failed: exec: \"`+program+`\": executable file not found in $PATH: unknown"}`)
}

// pipe is a connection to an API server of the test's.
func pipe(t *testing.T) (ours, apiServer *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); accepted.Close() })
	return conn.(*net.TCPConn), accepted.(*net.TCPConn)
}

// unasked is for a command that must not run again.
func unasked(t *testing.T) Unmarked {
	return func() (net.Conn, []byte, error) {
		t.Error("the command runs again")
		return nil, nil, errors.New("unasked")
	}
}

// slowly is a connection that is read in another way.
type slowly struct {
	*net.TCPConn

	from io.Reader
}

func (s *slowly) Read(p []byte) (int, error) { return s.from.Read(p) }

func TestACallerHearsTheCommandAsIfItHadNoMark(t *testing.T) {
	hello := message(1, "")
	for name, c := range map[string]struct {
		tty bool
		// from is what the API server says, and want what the caller hears; nil for the same.
		from, want []byte
		left       bool
		known      Knowledge
	}{
		"output, and the exit code":          {from: join(hello, message(1, "out"), message(2, "err"), exited(7)), known: HasEnv},
		"success without a word":             {from: join(hello, exited(0)), known: HasEnv},
		"a ping of the API server's":         {from: join(messageOf(9, 'p'), hello, message(1, "out"), exited(0)), known: HasEnv},
		"output without an end":              {from: join(hello, message(1, "out")), left: true, known: HasEnv},
		"nothing at all":                     {from: hello, left: true},
		"a close without an end":             {from: join(hello, messageOf(opClose, 3, 232)), left: true},
		"half an exit code":                  {from: join(hello, message(1, "out"), exited(7)[:30]), left: true, known: HasEnv},
		"a failure of the runtime's":         {from: join(hello, message(1, "out"), message(3, `{"status":"Failure","reason":"InternalError","message":"lost"}`)), left: true, known: HasEnv},
		"a message that is not short":        {from: join(hello, message(1, strings.Repeat("x", 2*maxFirst)), exited(0))},
		"a word like env's, of another name": {from: join(message(2, "env: 'sh2': No such file or directory\n"), exited(127)), known: HasEnv},
		"a word like env's, and then more":   {from: join(message(2, "env: 'sh': No such file or directory\n"), message(2, "x"), exited(127)), known: HasEnv},
		"env's word, and another exit code":  {from: join(message(2, "env: 'sh': No such file or directory\n"), exited(1)), known: HasEnv},
		"exit code 127 without a word":       {from: join(hello, exited(127)), known: HasEnv},
		"no such program, in the pieces in which env writes it": {
			from: join(hello, message(2, "env: "), message(2, "‘sh’"), message(2, ": No such file or directory"), message(2, "\n"), exited(127)),
			want: join(hello, message(2, "env: "), message(2, "‘sh’"), message(2, ": No such file or directory"), message(2, "\n"),
				message(3, `{"metadata":{},"status":"Failure","message":"exec: \"sh\": executable file not found in $PATH","reason":"InternalError","code":500}`)),
			known: HasEnv,
		},
		"a piece like env's, and then another word": {from: join(message(2, "en"), message(2, "velope"), exited(127)), known: HasEnv},
		"no such program": {
			from:  join(hello, message(2, "env: ‘sh’: No such file or directory\n"), exited(127)),
			want:  join(hello, message(2, "env: ‘sh’: No such file or directory\n"), message(3, `{"metadata":{},"status":"Failure","message":"exec: \"sh\": executable file not found in $PATH","reason":"InternalError","code":500}`)),
			known: HasEnv,
		},
		"a program without the right, on a terminal": {
			tty:   true,
			from:  join(message(1, "env: can't execute 'sh': Permission denied\r\n"), exited(126)),
			want:  join(message(1, "env: can't execute 'sh': Permission denied\r\n"), message(3, `{"metadata":{},"status":"Failure","message":"exec: \"sh\": permission denied","reason":"InternalError","code":500}`)),
			known: HasEnv,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for pieces, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
				command, _ := New([]string{"sh", "x"}, c.tty)
				ours, apiServer := pipe(t)
				conn := Watch(&slowly{ours, reader(ours)}, nil, command, Unknown, unasked(t))
				go func() {
					_, _ = apiServer.Write(c.from)
					_ = apiServer.CloseWrite()
				}()
				got, err := io.ReadAll(conn)
				want := c.want
				if want == nil {
					want = c.from
				}
				if !bytes.Equal(got, want) || err != nil {
					t.Errorf("%s: got %q (%v), want %q", pieces, got, err, want)
				}
				if left, _ := conn.Left(); left != c.left || conn.Known() != c.known {
					t.Errorf("%s: left is %v, and known is %v", pieces, left, conn.Known())
				}
			}
		})
	}
}

// A caller that goes when the API server has said the end, and has not heard it, leaves nothing.
func TestAnEndThatNobodyHeardIsOne(t *testing.T) {
	for name, first := range map[string][]byte{"in what was read with the handshake": exited(0), "behind output": join(message(1, "out"), exited(0))} {
		t.Run(name, func(t *testing.T) {
			command, _ := New([]string{"sh"}, false)
			ours, _ := pipe(t)
			conn := Watch(ours, first, command, Unknown, unasked(t))
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			if left, _ := conn.Left(); left {
				t.Error("something is left")
			}
		})
	}
}

func TestACallerThatGoesEarlyIsToldFromOneThatHeardSomething(t *testing.T) {
	for name, c := range map[string]struct {
		early []byte
		begun bool
	}{"nothing was heard": {message(1, ""), false}, "output was heard": {join(message(1, ""), message(1, "x")), true}} {
		t.Run(name, func(t *testing.T) {
			command, _ := New([]string{"sh"}, false)
			ours, apiServer := pipe(t)
			conn := Watch(ours, c.early, command, Unknown, unasked(t))
			_ = apiServer.Close()
			if _, err := io.ReadAll(conn); err != nil {
				t.Fatal(err)
			}
			if left, begun := conn.Left(); !left || begun != c.begun {
				t.Errorf("left is %v, begun %v", left, begun)
			}
		})
	}
}

// Without env the command runs as it is, with all that the caller has sent.
func TestACommandRunsAgainWhereThereIsNoEnv(t *testing.T) {
	command, _ := New([]string{"cat"}, false)
	ours, apiServer := pipe(t)
	second, api := pipe(t)
	conn := Watch(ours, message(1, ""), command, Unknown, func() (net.Conn, []byte, error) { return second, message(1, ""), nil })
	for _, part := range []string{"in", "put"} {
		if _, err := conn.Write(message(0, part)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = apiServer.Write(notStarted("env"))
	_ = apiServer.Close()
	heard := make(chan []byte)
	go func() {
		got, _ := io.ReadAll(conn)
		heard <- got
	}()
	want := join(message(0, "in"), message(0, "put"))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(api, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("it gets %q (%v), want %q", got, err, want)
	}
	_, _ = api.Write(message(1, "input"))
	if _, err := conn.Write(message(0, "more")); err != nil { // the replay is over: the command was heard
		t.Fatal(err)
	}
	if _, err := io.ReadFull(api, got[:len(message(0, "more"))]); err != nil {
		t.Fatal(err)
	}
	_ = api.Close()
	if got, want := <-heard, join(message(1, ""), message(1, ""), message(1, "input")); !bytes.Equal(got, want) {
		t.Errorf("the caller hears %q, want %q", got, want)
	}
	if left, _ := conn.Left(); left || conn.Known() != LacksEnv {
		t.Errorf("left is %v, known %v; what has no mark cannot be found", left, conn.Known())
	}
}

func TestACommandDoesNotRunAgainWhere(t *testing.T) {
	for name, c := range map[string]struct {
		known  Knowledge
		status []byte
		before func(*Conn)
		want   Knowledge
		left   bool
	}{
		"another program is missing":   {Unknown, notStarted("sh"), func(*Conn) {}, Unknown, true},
		"the container had env before": {HasEnv, notStarted("env"), func(*Conn) {}, LacksEnv, false},
		"more was sent than is held": {Unknown, notStarted("env"), func(c *Conn) {
			for sent := 0; sent <= MaxHeld; sent += 4 << 10 {
				_, _ = c.Write(make([]byte, 4<<10))
			}
		}, LacksEnv, false},
		"the caller has gone": {Unknown, notStarted("env"), func(c *Conn) { _ = c.CloseWrite() }, LacksEnv, false},
	} {
		t.Run(name, func(t *testing.T) {
			command, _ := New([]string{"cat"}, false)
			ours, apiServer := pipe(t)
			go func() { _, _ = io.Copy(io.Discard, apiServer) }()
			conn := Watch(ours, nil, command, c.known, unasked(t))
			c.before(conn)
			_, _ = apiServer.Write(c.status)
			_ = apiServer.CloseWrite()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, c.status) {
				t.Errorf("the caller hears %q (%v)", got, err)
			}
			if left, _ := conn.Left(); left != c.left || conn.Known() != c.want {
				t.Errorf("left is %v, known %v", left, conn.Known())
			}
			_ = conn.Close()
		})
	}
}

// An API server that refuses the second time ends the connection with the reason.
func TestACommandThatCannotRunAgainEnds(t *testing.T) {
	refused := errors.New("refused")
	command, _ := New([]string{"cat"}, false)
	ours, _ := pipe(t)
	conn := Watch(ours, notStarted("env"), command, Unknown, func() (net.Conn, []byte, error) { return nil, nil, refused })
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

// FuzzEnding holds what is found in pieces to what is found in whole messages.
func FuzzEnding(f *testing.F) {
	f.Add(join(message(1, "out"), message(3, "x")), 3)
	f.Add(messageOf(opBinary, make([]byte, 70000)...), 1)
	f.Add([]byte{0x89, 1, 3, 0x82, 1, 3}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		var want []byte
		found := false
		for rest := stream; !found; {
			one, after, ok := nextFrame(rest)
			if !ok {
				break
			}
			if found = !one.isControl() && one.op != opContinuation && len(one.data) > 0 && one.data[0] == 3; found {
				want = one.data[1:min(len(one.data), 1+maxStatus)]
			}
			rest = after
		}
		var e ending
		for piece := range slices.Chunk(stream, max(1, size)) {
			e.add(piece)
		}
		if e.whole != found || found && !bytes.Equal(e.status, want) {
			t.Errorf("%x in pieces of %d: %v %q, want %v %q", stream, size, e.whole, e.status, found, want)
		}
	})
}
