// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// letterOfHTTP reads requests by the letter of RFC 9112 and nothing beyond it, and keeps their heads. It does not use
// net/http, whose own view of a request would hide a difference.
type letterOfHTTP struct {
	mu    sync.Mutex
	heads []string
	wrong []string
}

var (
	// The origin form, and for OPTIONS alone the asterisk form (RFC 9112 section 3.2.4).
	letterLine   = regexp.MustCompile(`^(?:[A-Za-z]+ /[!-~]*|OPTIONS \*) HTTP/1\.1$`)
	letterHeader = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+:[ \t]*[\t -~\x80-\xff]*$`)
	letterChunk  = regexp.MustCompile(`^[0-9a-f]{1,8}\r\n$`)
)

func (l *letterOfHTTP) serve(_ int, conn *net.TCPConn) {
	for in := bufio.NewReader(conn); ; {
		head, err := l.head(in)
		if err == nil {
			err = readBody(in, head)
		}
		if err != nil {
			return
		}
		l.mu.Lock()
		l.heads = append(l.heads, head)
		l.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

func (l *letterOfHTTP) head(in *bufio.Reader) (string, error) {
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		c, err := in.ReadByte()
		if err != nil {
			return "", err
		}
		head.WriteByte(c)
	}
	lines := strings.Split(strings.TrimSuffix(head.String(), "\r\n\r\n"), "\r\n")
	framings := 0
	right := letterLine.MatchString(lines[0])
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name == "content-length" || name == "transfer-encoding" {
			framings++
		}
		right = right && letterHeader.MatchString(line)
	}
	if !right || framings > 1 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wrong = append(l.wrong, head.String())
	}
	return head.String(), nil
}

var contentLength = regexp.MustCompile(`(?i)\r\ncontent-length: ([0-9]+)\r\n`)

func readBody(in *bufio.Reader, head string) error {
	if found := contentLength.FindStringSubmatch(head); found != nil {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return err
		}
		_, err = io.CopyN(io.Discard, in, int64(n))
		return err
	}
	if !strings.Contains(strings.ToLower(head), "\r\ntransfer-encoding: chunked\r\n") {
		return nil
	}
	for {
		size, err := in.ReadString('\n')
		if err != nil || !letterChunk.MatchString(size) {
			return errors.Join(err, errors.New("not a chunk"))
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if _, err := io.CopyN(io.Discard, in, n); err != nil {
			return err
		}
		if n == 0 {
			_, err := readHead(in) // the trailer
			return err
		}
		if _, err := io.CopyN(io.Discard, in, 2); err != nil {
			return err
		}
	}
}

// corpus are the requests of the data plane's own corpus, by name.
func corpus(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../dataplane/testdata/smuggling/*.txt")
	if err != nil || len(files) < 80 {
		t.Fatalf("the corpus has %d requests, %v", len(files), err)
	}
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\n\r\n"
	values := strings.NewReplacer("{proxy}", "/outer", "{sync}", "/outer", "{echo}", "/outer", "{token}", "x", "{auth}", "Host: x\r\n",
		"{smuggled}", smuggled, "{len}", strconv.Itoa(len(smuggled)), "{big}", strings.Repeat("a", 40<<10))
	all := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var raw strings.Builder
		for line := range strings.SplitSeq(string(content), "\n") {
			if strings.HasPrefix(line, "# ") {
				continue
			}
			text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(line, `\"`, `"`), `"`, `\"`) + `"`)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			raw.WriteString(text)
		}
		all[filepath.Base(file)] = values.Replace(raw.String())
	}
	return all
}

// answerWithin is how long the answer to a request of the corpus is waited for.
const answerWithin = time.Second

// No two readers can disagree about what reaches the baseline, and what is behind a request whose end is in doubt is read by
// nobody.
func TestAmbiguousRequestsAreNotSmuggled(t *testing.T) {
	t.Parallel()
	for name, raw := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read letterOfHTTP
			w := newWorld(t, intercept.HTTP, newTCP(t, read.serve), "")
			conn := w.dial()
			_, _ = io.WriteString(conn, raw)
			// A client that has ended its half counts as gone: with it ended at once, most requests would never reach the baseline.
			// Some have no answer before it is ended.
			_ = conn.SetReadDeadline(time.Now().Add(answerWithin))
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.SetReadDeadline(time.Time{})
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			read.mu.Lock()
			defer read.mu.Unlock()
			for _, head := range read.wrong {
				t.Errorf("two readers could disagree about %q", head)
			}
			for i, head := range read.heads {
				doubtful := strings.Contains(strings.ToLower(head), "\r\ntransfer-encoding:")
				if doubtful && i+1 < len(read.heads) {
					t.Errorf("behind %q came %q", head, read.heads[i+1])
				}
				if strings.Contains(head, " /outer") && strings.Contains(head, "\r\nX-Smuggled:") {
					t.Errorf("a header was smuggled: %q", head)
				}
			}
		})
	}
}

func TestARequestWhoseEndIsInDoubtIsTheLastOfItsConnection(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	const next = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		code    int
	}{
		"a length and chunks":   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		"chunks alone":          {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		"two lengths":           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n", 400},
		"an unknown coding":     {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		"a space before colon":  {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n", 400},
		"no host":               {"GET / HTTP/1.1\r\n\r\n", 400},
		"two hosts":             {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"a chunk that is not":   {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400},
		"a length of a sign":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n", 400},
		"HTTP/1.0 with a chunk": {"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.say(c.request + next)
			if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", c.code)) && !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.0 %d ", c.code)) {
				t.Errorf("answered %q, want %d", answer, c.code)
			}
			if n := strings.Count(answer, "HTTP/1."); n != 1 {
				t.Errorf("%d answers came: %q", n, answer)
			}
		})
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newRawBackend(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", MaxHeaderBytes)+"\r\n\r\n").address)
	large := strings.Repeat("a", MaxHeaderBytes+(8<<10))
	if answer := w.say("GET / HTTP/1.1\r\nHost: x\r\nX: " + large + "\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 431 ") {
		t.Errorf("answered %.60q", answer)
	}
	req := w.request("GET", "/", nil)
	req.Header.Set("X", large)
	if res, err := w.client(true).Do(req); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("over HTTP/2 answered %d", res.StatusCode)
		}
	}
	res, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(got, "the header of its answer has more than 65536 bytes or 256 lines") {
		t.Errorf("a copy's large header was answered with %d %q", res.StatusCode, got)
	}
}

func TestAHeaderThatTakesTooLongEndsItsConnection(t *testing.T) {
	for _, said := range []string{"GET / HTTP/1.1\r\nHost: x\r\n", "P", "PRI"} {
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "", func(o *Options) { o.headerTimeout = 50 * time.Millisecond })
		conn := w.dial()
		_, _ = io.WriteString(conn, said)
		if got, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") || len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
			t.Errorf("after %q came %q, %v", said, got, err)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "", func(o *Options) { o.Connections = 2 })
	held := []*net.TCPConn{w.dial(), w.dial()}
	eventually(t, "two are held", func() bool { return valueOf(w.proxy.metrics.connections) == 2 })
	third := w.dial()
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a third connection is served")
	}
	if n := valueOf(w.proxy.metrics.refused); n != 1 {
		t.Errorf("%v are counted as refused", n)
	}
	held[0].Close()
	eventually(t, "there is room", func() bool { return valueOf(w.proxy.metrics.connections) == 1 })
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil)); got != baselineAnswered {
		t.Errorf("answered %q", got)
	}
}

// frames speaks HTTP/2 frame by frame, and says also what no client would.
type frames struct {
	*http2.Framer
	out     *hpack.Encoder
	headers bytes.Buffer
	next    uint32
}

func (w *world) frames() *frames {
	w.t.Helper()
	conn := w.dial()
	f := &frames{Framer: http2.NewFramer(conn, conn), next: 1}
	f.AllowIllegalWrites = true
	f.out = hpack.NewEncoder(&f.headers)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	if err := f.WriteSettings(); err != nil {
		w.t.Fatal(err)
	}
	return f
}

func (f *frames) open(end bool) error {
	f.headers.Reset()
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"}} {
		_ = f.out.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	id := f.next
	f.next += 2
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.headers.Bytes(), EndHeaders: end, EndStream: true})
}

// What ends a connection of HTTP/2 by its flood ends no other.
func TestFloodsOfHTTP2EndTheirOwnConnection(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(*frames) error{
		"streams that are reset at once": func(f *frames) error {
			if err := f.open(true); err != nil {
				return err
			}
			return f.WriteRSTStream(f.next-2, http2.ErrCodeCancel)
		},
		"a header that does not end": func(f *frames) error {
			if f.next == 1 {
				return f.open(false)
			}
			f.headers.Reset()
			_ = f.out.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 8<<10), Sensitive: true})
			return f.WriteContinuation(1, false, f.headers.Bytes())
		},
		"settings": func(f *frames) error { return f.WriteSettings() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
			f := w.frames()
			go func() {
				for {
					if _, err := f.ReadFrame(); err != nil {
						return
					}
				}
			}()
			for range 3000 {
				if flood(f) != nil {
					break
				}
			}
			for range 20 {
				if _, got := w.ask(w.client(true), w.request("GET", "/", nil)); got != baselineAnswered {
					t.Fatalf("another client got %q", got)
				}
			}
		})
	}
}

// The admin port is open to all pods, and has neither the limit of clients' connections nor theirs.
func TestTheAdminPortHasFewConnections(t *testing.T) {
	l, err := listenAdmin(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 2*MaxAdminConnections)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	})
	for range MaxAdminConnections + 1 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "most are accepted", func() bool { return len(accepted) >= MaxAdminConnections })
	time.Sleep(20 * time.Millisecond)
	if n := len(accepted); n != MaxAdminConnections {
		t.Errorf("%d connections are held, want %d", n, MaxAdminConnections)
	}
	for range MaxAdminConnections {
		(<-accepted).Close()
	}
	(<-accepted).Close() // it has waited
	l.Close()
	accepting.Wait()
}

// The admin port is for kubelets and Prometheus: it forwards nothing, also not what looks like a request to a proxy.
func TestTheAdminPortForwardsNothing(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	admin := w.proxy.admin().Handler
	for target, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/debug/pprof/": 404, "http://shop/": 404, "/healthz/../x": 404, "//healthz": 404,
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		u, err := req.URL.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		req.URL, req.Header = u, http.Header{"Baggage": {ownBaggage}}
		if strings.HasPrefix(target, "//") {
			req.URL.Host, req.URL.Path = "", target
		}
		answer := httptest.NewRecorder()
		admin.ServeHTTP(answer, req)
		isElsewhere := want == http.StatusNotFound && answer.Code >= 300 && answer.Code < 400
		if code := answer.Code; code != want && !isElsewhere || strings.Contains(answer.Body.String(), copyAnswered+"\n") {
			t.Errorf("%s: answered %d %.80q, want %d", target, code, answer.Body, want)
		}
	}
	req := httptest.NewRequest(http.MethodPost, "/readyz", nil)
	answer := httptest.NewRecorder()
	admin.ServeHTTP(answer, req)
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered %d", answer.Code)
	}
}
