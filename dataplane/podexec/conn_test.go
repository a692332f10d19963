// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stat is what follows the name in /proc/PID/stat, of a process that began at 777.
const stat = " S 0 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1;"

func message(channel byte, data string) []byte {
	return appendMessage(nil, opBinary, append([]byte{channel}, data...)...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// pipe is a connection to an API server of the test's.
func pipe(t *testing.T) (ours, apiServer net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if ours, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if apiServer, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); apiServer.Close() })
	return ours, apiServer
}

func unasked(t *testing.T) Asked {
	return func(bool) (net.Conn, []byte, error) {
		t.Error("the command is asked for as it is")
		return nil, nil, errors.New("unasked")
	}
}

func TestTheScriptsWordIsLeftOut(t *testing.T) {
	success := message(3, `{"status":"Success"}`)
	for name, c := range map[string]struct {
		tty        bool
		from, want func(mark string) []byte
		left       bool
	}{
		"with the command's output behind it": {
			false, func(mark string) []byte { return join(message(2, mark+"7"+stat+"oops"), message(1, "out")) },
			func(string) []byte { return join(message(2, "oops"), message(1, "out")) }, true,
		},
		"in pieces": {
			false, func(mark string) []byte {
				return join(message(2, mark[:3]), message(2, mark[3:]+"7"+stat[:9]), message(2, stat[9:]))
			},
			func(string) []byte { return nil }, true,
		},
		"behind what the shell says about its locale": {
			false, func(mark string) []byte {
				return join(message(2, "sh: warning: setlocale\n"), message(2, "x"+mark+"7"+stat))
			},
			func(string) []byte { return nil }, true,
		},
		"behind the API server's own messages": {
			false, func(mark string) []byte {
				return join(message(1, ""), appendMessage(nil, 9, 'p'), message(2, mark+"7"+stat))
			},
			func(string) []byte { return join(message(1, ""), appendMessage(nil, 9, 'p')) }, true,
		},
		"on a terminal": {
			true, func(mark string) []byte { return message(1, mark+"7"+stat+"\r\n$ ") },
			func(string) []byte { return message(1, "\r\n$ ") }, true,
		},
		"of a command that ends at once": {
			false, func(mark string) []byte { return join(message(2, mark+"7"+stat), message(1, "out"), success) },
			func(string) []byte { return join(message(1, "out"), success) }, false,
		},
		"but not a second one": {
			false, func(mark string) []byte { return join(message(2, mark+"7"+stat), message(2, mark+"8"+stat)) },
			func(mark string) []byte { return message(2, mark+"8"+stat) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for pieces, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
				asked, _ := New([]string{"x"}, true, !c.tty, c.tty)
				ours, apiServer := pipe(t)
				conn := Watch(&slowly{ours, reader(ours)}, nil, asked, unasked(t))
				_, _ = apiServer.Write(c.from(asked.mark))
				_ = apiServer.(*net.TCPConn).CloseWrite()
				got, err := io.ReadAll(conn)
				if want := c.want(asked.mark); !bytes.Equal(got, want) || err != nil {
					t.Errorf("%s: got %q (%v), want %q", pieces, got, err, want)
				}
				p, left := conn.Left(t.Context())
				if left != c.left || left && p != (Process{pid: 7, start: 777, tty: c.tty}) {
					t.Errorf("%s: left is %v, %v", pieces, p, left)
				}
			}
		})
	}
}

// A terminal echoes what is typed before the command has begun.
func TestATerminalsEchoIsNotLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		sent, want []byte
	}{
		"of input":           {message(0, "ls\n"), message(1, "ls\r\n$ ")},
		"of masked input":    {append([]byte{0x82, 0x84, 1, 2, 3, 4}, 0^1, 'l'^2, 's'^3, '\n'^4), message(1, "ls\r\n$ ")},
		"but not of nothing": {message(4, `{"Width":80}`), message(1, "$ ")},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := New([]string{"x"}, true, false, true)
			ours, apiServer := pipe(t)
			conn := Watch(ours, nil, asked, unasked(t))
			if _, err := conn.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			_, _ = apiServer.Write(message(1, "ls\r\n"+asked.mark+"7"+stat+"$ "))
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
			conn.Close()
		})
	}
}

// slowly is a connection that is read in another way.
type slowly struct {
	net.Conn

	from io.Reader
}

func (s *slowly) Read(p []byte) (int, error) { return s.from.Read(p) }

// What the script cannot begin runs as it is: with all that the caller has sent, and nothing of the first attempt.
func TestACommandThatTheScriptDoesNotBeginRunsAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(mark string) []byte
		never  bool
	}{
		"for the command":        {func(mark string) []byte { return join(message(1, ""), message(2, "noise"+mark+saysOther+";")) }, false},
		"for the container":      {func(mark string) []byte { return message(2, mark+saysNever+";") }, true},
		"for what has no number": {func(mark string) []byte { return message(2, mark+"7 S;") }, true},
		"for the first process":  {func(mark string) []byte { return message(2, mark+"1"+stat) }, true},
		"for no number":          {func(mark string) []byte { return message(2, mark+"$(reboot)"+stat) }, true},
		"without a shell": {func(string) []byte {
			return message(3, `{"status":"Failure","reason":"InternalError","message":"exec: \"sh\": executable file not found in $PATH"}`)
		}, true},
		"with a shell that is none": {func(string) []byte { return message(3, `{"status":"Failure","reason":"NonZeroExitCode"}`) }, true},
		"with a kubelet that is away": {func(string) []byte {
			return message(3, `{"status":"Failure","reason":"InternalError","message":"error dialing backend: connection refused"}`)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := New([]string{"x"}, true, true, false)
			ours, apiServer := pipe(t)
			other, second := pipe(t)
			var never []bool
			conn := Watch(ours, nil, asked, func(n bool) (net.Conn, []byte, error) {
				never = append(never, n)
				return other, message(1, "early"), nil
			})
			resize, input := message(4, `{"Width":1}`), message(0, "input")
			for _, sent := range [][]byte{resize, input[:4], input[4:]} {
				if n, err := conn.Write(sent); n != len(sent) || err != nil {
					t.Fatal(n, err)
				}
			}
			_, _ = apiServer.Write(c.answer(asked.mark))
			got := make([]byte, len(message(1, "early")))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, message(1, "early")) {
				t.Fatalf("got %q, %v", got, err)
			}
			if len(never) != 1 || never[0] != c.never {
				t.Errorf("it was asked for with %v, want %v", never, c.never)
			}
			_, _ = conn.Write(message(0, "more"))
			want := join(resize, input, message(0, "more"))
			got = make([]byte, len(want))
			if _, err := io.ReadFull(second, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the command got %q (%v), want %q", got, err, want)
			}
			if first, _ := io.ReadAll(apiServer); !bytes.Equal(first, join(resize, input)) {
				t.Errorf("the first attempt got %q", first)
			}
			if p, left := conn.Left(t.Context()); left {
				t.Errorf("%v is left", p)
			}
		})
	}
}

// A caller that goes at once must not leave a command that begins a moment later.
func TestACallerMayGoBeforeTheCommandHasBegun(t *testing.T) {
	for name, leave := range map[string]func(*Conn){
		"by a broken connection":    func(c *Conn) { _ = c.Close() },
		"by the end of its side":    func(c *Conn) { _ = c.CloseWrite(); _ = c.Close() },
		"with a WebSocket's close":  func(c *Conn) { _, _ = c.Write(appendMessage(nil, opClose)); _ = c.CloseWrite(); _ = c.Close() },
		"without being noticed yet": func(*Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := New([]string{"x"}, true, true, false)
			ours, apiServer := pipe(t)
			conn := Watch(ours, nil, asked, unasked(t))
			leave(conn)
			go func() {
				// An API server lets go of a command when the connection ends, or closes.
				_ = apiServer.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if n, err := apiServer.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					apiServer.Close()
					return
				}
				_, _ = apiServer.Write(message(2, asked.mark+"7"+stat))
			}()
			if p, left := conn.Left(t.Context()); !left || p.pid != 7 {
				t.Errorf("left is %v, %v", p, left)
			}
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Error("the connection can be read")
			}
		})
	}
	t.Run("and nothing is run as it is for it", func(t *testing.T) {
		asked, _ := New([]string{"x"}, true, true, false)
		ours, apiServer := pipe(t)
		conn := Watch(ours, nil, asked, unasked(t))
		_, _ = apiServer.Write(message(2, asked.mark+saysOther+";"))
		if p, left := conn.Left(t.Context()); left {
			t.Errorf("%v is left", p)
		}
	})
	t.Run("and a pod that says nothing is not waited for for ever", func(t *testing.T) {
		asked, _ := New([]string{"x"}, true, true, false)
		ours, _ := pipe(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if p, left := Watch(ours, nil, asked, unasked(t)).Left(ctx); left {
			t.Errorf("%v is left", p)
		}
	})
}

func TestAShellThatSaysSomethingElseEndsTheConnection(t *testing.T) {
	asked, _ := New([]string{"x"}, true, true, false)
	for name, said := range map[string][]byte{
		"on its output":      message(2, strings.Repeat("x", MaxSaid+1)),
		"on the other one":   bytes.Repeat(message(1, strings.Repeat("x", 1000)), 40),
		"in one big message": appendMessage(nil, opBinary, make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			ours, apiServer := pipe(t)
			conn := Watch(ours, nil, asked, unasked(t))
			go func() { _, _ = apiServer.Write(said) }()
			if _, err := io.ReadAll(conn); !errors.Is(err, errNoWord) {
				t.Errorf("got %v", err)
			}
			conn.Close()
			ours.Close()
		})
	}
}

// What is more than fits waits for the command, and comes in its order.
func TestMuchInputWaitsForTheCommand(t *testing.T) {
	asked, _ := New([]string{"x"}, true, true, false)
	ours, apiServer := pipe(t)
	conn := Watch(ours, nil, asked, unasked(t))
	one := message(0, strings.Repeat("x", 30<<10))
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 5 {
			if _, err := conn.Write(one); err != nil {
				t.Error(err)
			}
		}
	}()
	got := make([]byte, 2*len(one))
	if _, err := io.ReadFull(apiServer, got); err != nil {
		t.Fatal(err)
	}
	select {
	case <-written:
		t.Error("all of it went on before the command began")
	default:
	}
	_, _ = apiServer.Write(join(message(2, asked.mark+"7"+stat), message(1, "out")))
	if _, err := io.ReadFull(conn, make([]byte, len(message(1, "out")))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(apiServer, make([]byte, 3*len(one))); err != nil {
		t.Fatal(err)
	}
	<-written
	conn.Close()
}

func TestACommandWithoutOutputCannotBeNamed(t *testing.T) {
	if _, ok := New([]string{"x"}, false, false, false); ok {
		t.Error("it can")
	}
}

// FuzzBegin: of the bytes that a pod prints nothing becomes more than two numbers, or part of the caller's bytes
// before the word.
func FuzzBegin(f *testing.F) {
	const mark = "MARK "
	for _, seed := range [][]byte{
		message(2, mark+"7"+stat+"out"), message(2, mark+"other;"), message(3, `{"status":"Success"}`), join(message(1, ""), message(2, mark), message(2, "7"+stat)),
		{0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255}, {0x02, 2, 2, 'M'}, {0x88, 0}, {0x82, 126, 0, 1, 2},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, from []byte) {
		asked := Command{Stdout: true, Stderr: true, mark: mark}
		conn := Watch(&fixed{from: bytes.NewReader(from)}, nil, asked, func(bool) (net.Conn, []byte, error) { return nil, nil, errGone })
		_, _ = io.Copy(io.Discard, conn)
		p, left := conn.Left(t.Context())
		if !left {
			return
		}
		for _, argument := range p.ended()[4:6] {
			if strings.Trim(argument, "0123456789") != "" || argument == "" {
				t.Errorf("%q is not a number", argument)
			}
		}
		if p.pid <= 1 || !bytes.Contains(from, []byte(mark)) {
			t.Errorf("%v came of %q", p, from)
		}
	})
}

// fixed is a connection from which fixed bytes come.
type fixed struct {
	net.Conn

	from io.Reader
}

func (f *fixed) Read(p []byte) (int, error)       { return f.from.Read(p) }
func (f *fixed) Write(p []byte) (int, error)      { return len(p), nil }
func (f *fixed) Close() error                     { return nil }
func (f *fixed) SetDeadline(time.Time) error      { return nil }
func (f *fixed) SetReadDeadline(time.Time) error  { return nil }
func (f *fixed) SetWriteDeadline(time.Time) error { return nil }
